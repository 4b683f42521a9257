package jepsen

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"lockstress/history"
)

// The same history in all the forms, with what must be skipped in between.
const (
	asEDN = `; recorded on a Monday
[{:process 0, :type :invoke, :f :cas, :value [1 2], :time 5, :index 0}
 {:process :nemesis, :type :info, :f :kill, :value {:n1 "a } \" ;"}} ; } not here
 #_ {:process 9 :type :oops}
 {:process 0 :type :ok :f :cas :value [1 2] :time 6 :index 2 :error [:x "y"] :other #{1 [2]} :c \{ :d \} :e 3N :g 1.5M}
]
`
	asTagged = `#jepsen.history.History [#jepsen.history.Op{:process 0, :type :invoke, :f :cas, :value [1 2], :time 5, :index 0, :at #inst "nonsense"}
 #jepsen.history.Op{:process :nemesis, :type :info, :f :kill, :value nil}
 #jepsen.history.Op {:process 0 :type :ok :f :cas :value #x [1 2] :time 6 :index 2 :error [:x "y"]}]`
	asLines = `{:process 0, :type :invoke, :f :cas, :value [1 2], :time 5, :index 0}
{:process :nemesis, :type :info, :f :kill, :value nil}
{:process 0 :type :ok :f :cas :value (1 2) :time 6 :index 2 :error [:x "y"]}
`
	asList      = `(` + asLines + `)`
	asJSONLines = `{"process":0,"type":"invoke","f":"cas","value":[1,2],"time":5,"index":0}
{"process":"nemesis","type":"info","f":"kill","value":null}

{"process":0,"type":"ok","f":"cas","value":[1,2],"time":6,"index":2,"error":[":x","y"],"other":{"a":[]}}`
	asJSON = "\n[" + `{"process":0,"type":"invoke","f":"cas","value":[1,2],"time":5,"index":0},
{"process":"nemesis","type":"info","f":"kill","value":null} ,
{"process":0,"type":":ok","f":":cas","value":[1,2],"time":6,"index":2,"error":[":x","y"]}]
`
)

var forms6 = map[string]struct{ file, format string }{
	"vector": {asEDN, "EDN"}, "tagged": {asTagged, "EDN"}, "EDN lines": {asLines, "EDN"}, "list": {asList, "EDN"},
	"JSON lines": {asJSONLines, "JSON lines"}, "JSON": {asJSON, "JSON"},
}

func zipped(t testing.TB, s string) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(s)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestFormats(t *testing.T) {
	value := []Value{int64(1), int64(2)}
	want := []Event{
		{Position: 0, Index: 0, Process: 0, Type: history.Invoke, F: "cas", Value: value, Time: 5, Timed: true},
		{Position: 2, Index: 2, Process: 0, Type: history.OK, F: "cas", Value: value, Time: 6, Timed: true, Error: `[:x "y"]`},
	}
	for name, c := range forms6 {
		for packed, file := range map[string][]byte{"": []byte(c.file), ", gzip": zipped(t, c.file)} {
			h, err := Read(bytes.NewReader(file), Options{})
			if err != nil {
				t.Errorf("%s%s: %v", name, packed, err)
				continue
			}
			if h.Format != c.format+packed || h.Total != 3 || h.Skipped["nemesis"] != 1 {
				t.Errorf("%s%s: %s, %d events, skipped %v", name, packed, h.Format, h.Total, h.Skipped)
			}
			for i := range h.Events {
				if line := strings.Split(c.file, "\n")[h.Events[i].Line-1]; !strings.Contains(line, "{") || !strings.Contains(line, "cas") {
					t.Errorf("%s: event %d is not on line %d, %q", name, i, h.Events[i].Line, line)
				}
				h.Events[i].Line = 0
			}
			if !reflect.DeepEqual(h.Events, want) {
				t.Errorf("%s:\n     %+v\nwant %+v", name, h.Events, want)
			}
		}
	}
	for _, empty := range []string{"[]", " [ ]\n", "()", "[ ; nothing\n]", `{:process :nemesis :type :info :f :x}`} {
		if h, err := Read(strings.NewReader(empty), Options{}); err != nil || len(h.Events) != 0 {
			t.Errorf("%s: %v", empty, err)
		}
	}
}

func TestIndependent(t *testing.T) {
	for _, file := range []string{
		`{:process 0 :type :invoke :f :write :value [:k 3]} {:process 0 :type :ok :f :write :value [:k 3]}`,
		`{:process 0 :type :invoke :f :write :value #jepsen.independent/tuple [:k 3]} {:process 0 :type :ok :f :write :value [:k 3]}`,
		`[{"process":0,"type":"invoke","f":"write","value":[":k",3]},{"process":0,"type":"ok","f":"write","value":[":k",3]}]`,
	} {
		h, err := Read(strings.NewReader(file), Options{Independent: true})
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		ops, err := h.Operations()
		if err != nil || len(ops) != 1 || ops[0].Key != ":k" || ops[0].Input != int64(3) {
			t.Errorf("%s: %v, %+v", file, err, ops)
		}
	}
}

func TestErrorsNameTheLine(t *testing.T) {
	op := func(s string) string { return "[\n{:process 0 :type :invoke :f :read}\n" + s + "\n]" }
	for name, c := range map[string]struct{ file, want string }{
		"empty":             {"", "line 1: the file is empty"},
		"blank":             {"\n\n  ", "line 3: the file is empty"},
		"only a comment":    {"; nothing\n", "line 2: the file is empty"},
		"text":              {"hello\n", "line 1: not a history in EDN or JSON"},
		"binary":            {"\x00\x01", "line 1: not a history in EDN or JSON"},
		"torn gzip":         {string(zipped(t, asEDN)[:60]), "unexpected EOF"},
		"broken gzip":       {"\x1f\x8b\x00\x00", "line 1: unpacking the file"},
		"behind gzip":       {string(zipped(t, asEDN)) + "xx", "reading the file"},
		"not closed":        {"[\n{:process 0 :type :invoke :f :read}\n", "line 3: the file is truncated: the '[' of line 1 is not closed"},
		"cut in a map":      {"[\n{:process 0 :type", "line 2: the file is truncated: it ends inside an operation that begins on line 2"},
		"cut in a string":   {`{"process":0,"f":"re`, "line 1: the file is truncated"},
		"something behind":  {asEDN + "{:process 0}", "line 7: something follows the end"},
		"wrong bracket":     {op("{:process 1 :value [1 2}}"), `line 3: '}' closes the operation that begins on line 3 where ']' is due`},
		"too deep":          {op("{:x " + strings.Repeat("[", 100)), "line 3: more than 64 brackets"},
		"a number":          {op("17"), `line 3: an operation is a map, and this begins with '1'`},
		"a vector":          {op("[]"), `line 3: an operation is a map`},
		"no type":           {op("{:process 1 :f :read}"), "line 3, operation 1: :type is nil"},
		"unknown type":      {op("{:process 1 :type :begin :f :read}"), "line 3, operation 1: unknown :type begin"},
		"no process":        {op("{:type :invoke :f :read}"), "line 3, operation 1: :process is nil"},
		"a process as text": {op(`{:process "7" :type :info :f :read}`), `:process is the string "7"`},
		"a keyword that acts": {op(`{:process :client-a :type :invoke :f :read}`),
			`process "client-a" is invoke: only numbers are clients`},
		"no f":             {op("{:process 1 :type :invoke}"), "line 3, operation 1: :f is nil"},
		"float time":       {op("{:process 1 :type :invoke :f :x :time 1.5}"), ":time is 1.5"},
		"a key twice":      {op("{:process 1 :process 2 :type :invoke :f :x}"), "the key process is given twice"},
		"a key alone":      {op("{:process 1 :type :invoke :f}"), "a key that has no value"},
		"no EDN":           {op("{:process 1 :type :invoke :f :x :y 1/}"), "line 3, operation 1: not EDN"},
		"not UTF-8":        {op("{:process 1 :type :invoke :f :x :y \"\xff\"}"), "line 3, operation 1: not UTF-8"},
		"a tag at the end": {"#x", "line 1: the file ends"},
		"discarded end":    {"{:process 0 :type :invoke :f :read} #_", "line 1: the file ends where #_"},
		"invoked twice":    {op("{:process 0 :type :invoke :f :read}"), "line 3, operation 1: process 0 invokes read while its read of line 2 is open"},
		"never invoked":    {op("{:process 1 :type :ok :f :read}"), "line 3, operation 1: process 1 completes a read that it did not invoke"},
		"something else":   {op("{:process 0 :type :ok :f :write}"), "line 3, operation 1: process 0 completes a write, but the open operation, line 2, is a read"},
		"tuples":           {op("{:process 1 :type :invoke :f :read :value #jepsen.independent/tuple [1 2]}"), "--independent"},
		"JSON key twice":   {`{"process":0,"process":1}`, `line 1, operation 0: the key "process" is given twice`},
		"JSON commas":      {`[{"process":0,"type":"invoke","f":"x"}{"process":1}]`, "line 1: a comma is missing"},
		"JSON last comma":  {`[{"process":0,"type":"invoke","f":"x"},]`, "line 1: an operation is a map"},
		"JSON two commas":  {`[{"process":0,"type":"invoke","f":"x"},,{}]`, "line 1: unexpected comma"},
		"JSON comment":     {"{\"process\":0,\"type\":\"invoke\",\"f\":\"x\"}\n;x", "line 2: an operation is a map"},
		"JSON inside":      {`{"process":0 "type":"invoke"}`, "line 1, operation 0: not JSON"},
	} {
		_, err := Read(strings.NewReader(c.file), Options{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q in it", name, err, c.want)
		}
	}
	_, err := Read(strings.NewReader(asEDN), Options{Independent: true})
	if err != nil {
		t.Errorf("[1 2] is a tuple too: %v", err)
	}
	_, err = Read(strings.NewReader(op("{:process 1 :type :invoke :f :read :value 3}")), Options{Independent: true})
	if err == nil || !strings.Contains(err.Error(), "line 2, operation 0: :value is nil, not a tuple") {
		t.Errorf("no tuple: %v", err)
	}
	if _, err := Read(strings.NewReader("x"), Options{}); !errors.Is(err, ErrUnknownFormat) {
		t.Errorf("%v is not ErrUnknownFormat", err)
	}
}

func TestLimits(t *testing.T) {
	for name, c := range map[string]struct {
		file string
		o    Options
		want string
	}{
		"bytes":            {asLines, Options{MaxBytes: 100}, "larger than 100 bytes"},
		"unpacked":         {string(zipped(t, strings.Repeat(" ", 1000)+asLines)), Options{MaxBytes: 500}, "larger than 500 bytes"},
		"operations":       {asLines, Options{MaxOperations: 2}, "line 3: more than 2 operations"},
		"one operation":    {"{:x \"" + strings.Repeat("y", maxForm), Options{}, "longer than"},
		"a discarded word": {"{:process 0 :type :invoke :f :x} #_" + strings.Repeat("y", maxForm+10), Options{}, "a word of more than"},
		"a tag":            {"#" + strings.Repeat("y", 300), Options{}, "a tag of more than"},
	} {
		if _, err := Read(strings.NewReader(c.file), c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, c := range forms6 {
		f.Add([]byte(c.file))
	}
	f.Add(zipped(f, asLines))
	f.Add([]byte(`{:process 0 :type :invoke :f :x :value #_ #_ 1 2 {[1] #{nil} nil #x/y nil}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := Read(bytes.NewReader(data), Options{MaxBytes: 1 << 20})
		if err != nil {
			return
		}
		if _, err := h.Operations(); err != nil {
			t.Fatalf("accepted, but %v", err)
		}
		for i := range h.Events {
			Text(h.Events[i].Value)
		}
	})
}

// TestMutations: a damaged file is refused, or it is read to its last operation.
func TestMutations(t *testing.T) {
	n := 3000
	if s := os.Getenv("STRESS_MUTATIONS"); s != "" {
		var err error
		if n, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	var long strings.Builder
	for i := range 30 {
		fmt.Fprintf(&long, "{:process %d, :type :invoke, :f :acquire, :value nil, :index %d}\n{:process %d, :type :ok, :f :acquire, :value %d, :index %d}\n", i%3, 2*i, i%3, i, 2*i+1)
	}
	files := [][]byte{[]byte(long.String()), []byte("[" + long.String() + "]"), zipped(t, "["+long.String()+"]")}
	for _, name := range []string{"vector", "tagged", "EDN lines", "list", "JSON lines", "JSON"} {
		files = append(files, []byte(forms6[name].file))
	}
	r := rand.New(rand.NewPCG(8, 10))
	accepted := 0
	for range n {
		which := r.IntN(len(files))
		data := mutate(r, files[which])
		h, err := Read(bytes.NewReader(data), Options{MaxBytes: 1 << 22})
		if err != nil {
			if !strings.Contains(err.Error(), "line ") {
				t.Fatalf("no line is named: %v", err)
			}
			continue
		}
		accepted++
		if which == 2 && !bytes.Equal(data, files[which]) {
			// Only the gzip header's time, flags and name have no checksum.
			whole, err := Read(bytes.NewReader(files[which]), Options{})
			if err != nil || !reflect.DeepEqual(whole.Events, h.Events) {
				t.Fatalf("a damaged gzip file is read, and differently: %q", data)
			}
		}
		// Another way to count, where no comment, string or discarded form can
		// hide a brace: the outermost ones.
		if which == 2 || bytes.ContainsAny(data, ";\\_\"") {
			continue
		}
		depth, maps := 0, 0
		for _, c := range data {
			switch c {
			case '{':
				if depth == 0 {
					maps++
				}
				depth++
			case '}':
				depth--
			}
		}
		if h.Total != maps || depth != 0 {
			t.Fatalf("%d operations of %d, %d open: %q", h.Total, maps, depth, data)
		}
	}
	t.Logf("%d of %d mutations are histories all the same", accepted, n)
}

func mutate(r *rand.Rand, file []byte) []byte {
	data := bytes.Clone(file)
	for range 1 + r.IntN(3) {
		if len(data) == 0 {
			break
		}
		at := r.IntN(len(data))
		to := min(len(data), at+1+r.IntN(1+r.IntN(100)))
		switch r.IntN(6) {
		case 0: // cut
			data = data[:at]
		case 1: // a piece is gone
			data = append(data[:at:at], data[to:]...)
		case 2: // a piece is there twice
			data = append(data[:to:to], data[at:]...)
		case 3: // a bit
			data[at] ^= 1 << r.IntN(8)
		case 4: // another byte, of those that mean something
			const bytes = "{}[]()\",:0123456789-\\;#_nt\n\x00\xff"
			data[at] = bytes[r.IntN(len(bytes))]
		case 5: // two lines change places
			lines := bytes.SplitAfter(data, []byte{'\n'})
			i, j := r.IntN(len(lines)), r.IntN(len(lines))
			lines[i], lines[j] = lines[j], lines[i]
			data = bytes.Join(lines, nil)
		}
	}
	return data
}
