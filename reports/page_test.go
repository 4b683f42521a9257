package reports
import ("testing";"os")
func TestDumpPage(t *testing.T){
 run:=loadSample(t)
 plots,_:=Plots("/tmp/lsplots",run)
 f,_:=os.Create("/tmp/lsplots/report.html"); defer f.Close()
 if err:=Page(f,run,plots);err!=nil{t.Fatal(err)}
}
