package topology
import ("testing";"time")
func TestZZ(t *testing.T) {
	top := start(t, Spec{Kind: Sentinel, Replicas: 2}, &forwarder{})
	time.Sleep(25*time.Second)
	healthy(t, top)
	if err := top.Clean(t.Context()); err != nil { t.Fatal(err) }
	old := top.Primary(); old.Kill()
	now, err := top.WaitFailover(t.Context(), old)
	t.Log(now.Name, err)
	if err := old.Restart(t.Context(), RestartOptions{}); err != nil { t.Fatal(err) }
	time.Sleep(15*time.Second)
	r, _ := old.Role(t.Context())
	t.Log("old primary is now a", r)
	for _, n := range top.Replicas() { t.Log(n.Name, n.linkUp(t.Context())) }
}
