package jepsen

import (
	"bytes"
	"strings"
	"testing"

	"lockstress/history"
)

func TestConvert(t *testing.T) {
	const file = `{:process 0 :type :invoke :f :acquire :time 10}
{:process 0 :type :ok :f :acquire :time 20}
{:process 0 :type :invoke :f :release :time 30}
{:process 0 :type :info :f :release :time 40 :error :timeout}
{:process 0 :type :invoke :f :lock :time 50}
{:process 0 :type :fail :f :lock :time 60 :error [:taken 1]}
{:process 3 :type :invoke :f :release :time 70}`
	h, err := Read(strings.NewReader(file), Options{})
	if err != nil {
		t.Fatal(err)
	}
	own, err := Convert(h)
	if err != nil {
		t.Fatal(err)
	}
	ops, err := own.Operations()
	if err != nil {
		t.Fatal(err)
	}
	want := []history.Operation{
		{Process: 0, Op: history.Acquire, Hold: 1, Invoke: 10, Return: 20, Outcome: history.OK, First: 0, Last: 1},
		{Process: 0, Op: history.Release, Hold: 1, Invoke: 30, Return: history.Never, Outcome: history.Info, Code: "unknown", First: 2, Last: 3},
		{Process: 1, Op: history.Acquire, Hold: 2, Invoke: 50, Return: 60, Outcome: history.Fail, Code: "refused", First: 4, Last: 5},
		{Process: 2, Op: history.Release, Hold: 3, Invoke: 70, Return: history.Never, Outcome: history.Info, First: 6, Last: -1},
	}
	for i := range want {
		if i >= len(ops) || ops[i] != want[i] {
			t.Fatalf("got  %+v\nwant %+v", ops, want)
		}
	}
	var buf bytes.Buffer
	if err := history.Encode(&buf, own); err != nil {
		t.Fatal(err)
	}
	if _, err := history.Decode(&buf); err != nil {
		t.Error(err)
	}
	h.Events[0].F = "read"
	if _, err := Convert(h); err == nil || !strings.Contains(err.Error(), "line 1, operation 0: a read") {
		t.Errorf("error %v", err)
	}
}
