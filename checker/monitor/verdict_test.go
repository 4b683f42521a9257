package monitor

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"lockstress/history"
)

func acquire(h, from, to int64) LockOp {
	return LockOp{Invoke: from, Return: to, Hold: h, Kind: Acquire, Outcome: OK}
}

func release(h, from, to int64) LockOp {
	return LockOp{Invoke: from, Return: to, Hold: h, Kind: Release, Outcome: OK}
}

func failed(op LockOp) LockOp { op.Outcome = Fail; return op }

func unsure(op LockOp) LockOp { op.Outcome, op.Return = Info, Never; return op }

func said(op LockOp, deadline int64) LockOp { op.Deadline = deadline; return op }

func extend(h, from, to int64) LockOp {
	op := release(h, from, to)
	op.Kind = Extend
	return op
}

func TestLockByHand(t *testing.T) {
	for _, test := range []struct {
		name    string
		ops     []LockOp
		want    Result
		witness []int
	}{
		{"nothing", nil, Legal, nil},
		{"one after the other", []LockOp{acquire(1, 0, 1), release(1, 2, 3), acquire(2, 4, 5)}, Legal, nil},
		{"handed over", []LockOp{acquire(1, 0, 1), release(1, 2, 9), acquire(2, 3, 4)}, Legal, nil},
		{"double grant", []LockOp{acquire(1, 0, 1), acquire(2, 2, 3), release(1, 4, 5), release(2, 6, 7)}, Illegal, []int{0, 1, 2, 3}},
		{"touching is concurrent", []LockOp{acquire(1, 0, 1), acquire(2, 2, 4), release(1, 4, 5)}, Legal, nil},
		{"lost release explains", []LockOp{acquire(1, 0, 1), unsure(release(1, 2, 0)), acquire(2, 3, 4)}, Legal, nil},
		{"lost release comes too late", []LockOp{acquire(1, 0, 1), acquire(2, 2, 3), unsure(release(1, 4, 0))}, Illegal, []int{0, 1, 2}},
		{"busy for no reason", []LockOp{failed(acquire(1, 0, 1)), acquire(2, 2, 3)}, Illegal, []int{0, 1}},
		{"busy because of a lost acquire", []LockOp{unsure(acquire(1, 0, 0)), failed(acquire(2, 1, 2))}, Legal, nil},
		{"a lost acquire cannot both hold and let go", []LockOp{unsure(acquire(1, 0, 0)), failed(acquire(2, 1, 2)), acquire(3, 3, 4)}, Illegal, []int{1, 2}},
		{"a lost acquire given back explains twice, at once", []LockOp{unsure(acquire(1, 0, 0)), unsure(release(1, 1, 0)), failed(acquire(2, 2, 3)), failed(acquire(3, 5, 6)), acquire(4, 7, 8)}, Legal, nil},
		{"a lost acquire given back explains once", []LockOp{unsure(acquire(1, 0, 0)), unsure(release(1, 1, 0)), failed(acquire(2, 2, 3)), acquire(3, 4, 5), release(3, 6, 7), failed(acquire(4, 8, 9))}, Illegal, []int{3, 4, 5}},
		{"of two lost ones, the one that is of no use later", []LockOp{
			unsure(acquire(1, 0, 0)), unsure(release(1, 1, 0)),
			unsure(acquire(2, 0, 0)), unsure(release(2, 1, 0)), failed(release(2, 20, 30)),
			failed(acquire(3, 3, 4)), acquire(4, 5, 6), release(4, 7, 8),
			failed(acquire(5, 15, 16)), failed(acquire(6, 32, 33)),
		}, Legal, nil},
		{"a lost one that was not held in between", []LockOp{
			unsure(acquire(2, 0, 0)), unsure(release(2, 1, 0)), failed(release(2, 20, 30)), failed(release(2, 2, 3)),
			failed(acquire(5, 15, 16)), failed(acquire(6, 32, 33)),
		}, Illegal, []int{5}},
		{"not held, but it is", []LockOp{acquire(1, 0, 1), failed(release(1, 2, 3))}, Illegal, []int{0, 1}},
		{"not held any more", []LockOp{acquire(1, 0, 1), release(1, 2, 3), failed(release(1, 4, 5))}, Legal, nil},
		{"released twice", []LockOp{acquire(1, 0, 1), release(1, 2, 3), release(1, 4, 5)}, Illegal, []int{0, 1, 2}},
		{"released without having it", []LockOp{failed(acquire(1, 0, 9)), acquire(2, 0, 1), release(1, 2, 3)}, Illegal, []int{0, 2}},
		{"asked for twice", []LockOp{acquire(1, 0, 1), acquire(1, 2, 3)}, Unknown, []int{0, 1}},
		{"backwards", []LockOp{acquire(1, 2, 1)}, Unknown, []int{0}},
		{"all at one moment", []LockOp{acquire(1, 5, 5), release(1, 5, 5), acquire(2, 5, 5), release(2, 5, 5), failed(acquire(3, 5, 5))}, Legal, nil},
	} {
		v := Lock(test.ops, LockRules{})
		if v.Result != test.want || !slices.Equal(v.Witness, test.witness) {
			t.Errorf("%s: %v %v (%s), want %v %v", test.name, v.Result, v.Witness, v.Reason, test.want, test.witness)
		}
		if (v.Reason == "") != (v.Result == Legal) {
			t.Errorf("%s: %v with the reason %q", test.name, v.Result, v.Reason)
		}
	}
}

func TestLeaseByHand(t *testing.T) {
	rules := LeaseRules{TTL: 100, Margin: 5}
	strict := rules
	strict.Latest = true
	for _, test := range []struct {
		name  string
		ops   []LockOp
		rules LeaseRules
		want  Result
	}{
		{"expired", []LockOp{acquire(1, 0, 10), acquire(2, 90, 95)}, rules, Legal},
		{"not yet expired", []LockOp{acquire(1, 0, 10), acquire(2, 90, 94)}, rules, Illegal},
		{"extended", []LockOp{acquire(1, 0, 10), extend(1, 50, 60), acquire(2, 90, 144)}, rules, Illegal},
		{"extension came to nothing", []LockOp{acquire(1, 0, 10), unsure(extend(1, 50, 0)), acquire(2, 90, 95)}, rules, Legal},
		{"extended though it must have expired", []LockOp{acquire(1, 0, 10), extend(1, 116, 120)}, strict, Illegal},
		{"extended just in time", []LockOp{acquire(1, 0, 10), extend(1, 115, 120)}, strict, Legal},
		{"extended by a lost extension", []LockOp{acquire(1, 0, 10), unsure(extend(1, 50, 0)), extend(1, 300, 301)}, strict, Legal},
		{"busy long after", []LockOp{acquire(1, 0, 10), failed(acquire(2, 116, 120))}, strict, Illegal},
		{"busy long after, no latest", []LockOp{acquire(1, 0, 10), failed(acquire(2, 116, 120))}, rules, Legal},
		{"prolonged by a lost extension", []LockOp{acquire(1, 0, 10), unsure(extend(1, 50, 0)), failed(acquire(2, 116, 120)), acquire(3, 140, 145)}, strict, Legal},
		{"prolonged, and not over", []LockOp{acquire(1, 0, 10), unsure(extend(1, 50, 0)), failed(acquire(2, 116, 120)), acquire(3, 140, 144)}, strict, Illegal},
		{"prolonged, and given back by a lost release", []LockOp{acquire(1, 0, 10), unsure(extend(1, 50, 0)), unsure(release(1, 125, 0)), failed(acquire(2, 116, 120)), acquire(3, 128, 130)}, strict, Legal},
		{"it said that it lasts longer", []LockOp{said(acquire(1, 0, 50), 140), acquire(2, 130, 134)}, rules, Illegal},
		{"and no longer", []LockOp{said(acquire(1, 0, 50), 140), acquire(2, 130, 135)}, rules, Legal},
		{"it said that it does not last as long", []LockOp{said(acquire(1, 0, 50), 80), acquire(2, 70, 75)}, rules, Legal},
		{"a lost answer states nothing", []LockOp{unsure(said(acquire(1, 0, 0), 500)), extend(1, 10, 12), acquire(2, 100, 105)}, rules, Legal},
		{"reached through a lost extension", []LockOp{acquire(1, 0, 10), unsure(extend(1, 50, 0)), said(extend(1, 116, 117), 120), acquire(2, 140, 145)}, strict, Legal},
		{"reached through a lost extension, which lasts", []LockOp{acquire(1, 0, 10), unsure(extend(1, 50, 0)), said(extend(1, 116, 117), 120), acquire(2, 120, 144)}, strict, Illegal},
		{"no lease", nil, LeaseRules{TTL: -1}, Unknown},
	} {
		if v := Lease(test.ops, test.rules); v.Result != test.want {
			t.Errorf("%s: %v (%s), want %v", test.name, v.Result, v.Reason, test.want)
		}
	}
}

// Two acquires were open at the same time, so real time does not order their tokens; the
// lock does, where the releases tell which came first.
func TestTokensByHand(t *testing.T) {
	ops := []LockOp{acquire(1, 0, 1), release(1, 2, 3), acquire(2, 0, 5), release(2, 6, 7)}
	for _, test := range []struct {
		tokens        []int64
		alone, inLock Result
	}{
		{[]int64{1, 0, 2, 0}, Legal, Legal},
		{[]int64{2, 0, 1, 0}, Legal, Illegal},
		{[]int64{2, 0, 2, 0}, Illegal, Illegal},
		{[]int64{2, 0, 0, 0}, Legal, Legal},
	} {
		l := LockHistory{Ops: ops, Tokens: test.tokens, Index: []int{0, 1, 2, 3}}
		grants, _ := l.Grants()
		if v := Fencing(grants); v.Result != test.alone {
			t.Errorf("tokens %v: %v (%s), want %v", test.tokens, v.Result, v.Reason, test.alone)
		}
		if v := FencedLock(ops, test.tokens, LockRules{}); v.Result != test.inLock {
			t.Errorf("tokens %v in a lock: %v (%s), want %v", test.tokens, v.Result, v.Reason, test.inLock)
		}
		if v := FencedLease(ops, test.tokens, LeaseRules{TTL: 100}); v.Result != test.inLock {
			t.Errorf("tokens %v in a lease: %v (%s), want %v", test.tokens, v.Result, v.Reason, test.inLock)
		}
	}
	// The first may have expired before it returned, and the second was first then.
	if v := FencedLease([]LockOp{acquire(1, 0, 9), acquire(2, 0, 8), release(2, 9, 10)}, []int64{2, 1, 0}, LeaseRules{TTL: 5}); v.Result != Unknown {
		t.Errorf("a grant that may have expired: %v (%s), want unknown", v.Result, v.Reason)
	}
}

// A monitor that has to give up says so, and never that all is well.
func TestGivesUp(t *testing.T) {
	// Each lost acquire may explain the busy answer after it, and its release
	// is still to come, so it matters which of them did.
	var ops []LockOp
	for i := range int64(40) {
		ops = append(ops, unsure(acquire(i+1, i, 0)), unsure(release(i+1, 10_000+i, 0)), failed(release(i+1, 20_000, 30_000)))
	}
	at := int64(1000)
	for i := range int64(6) {
		ops = append(ops, failed(acquire(100+i, at, at+1)))
		at += 10
	}
	v := Lock(ops, LockRules{MaxStates: 16})
	if v.Result != Unknown || !strings.Contains(v.Reason, "states") {
		t.Errorf("16 states: %v (%s), want unknown for want of states", v.Result, v.Reason)
	}
	if v := Lock(ops, LockRules{}); v.Result != Legal {
		t.Errorf("4096 states: %v (%s), want legal", v.Result, v.Reason)
	}
	for i := range int64(40) {
		ops = append(ops, unsure(acquire(i+201, i, 0)), unsure(release(i+201, 10_000+i, 0)))
	}
	if v := Lock(ops, LockRules{}); v.Result != Unknown || !strings.Contains(v.Reason, "64") {
		t.Errorf("80 loose holds: %v (%s), want unknown", v.Result, v.Reason)
	}
}

// The witness of a planted double grant is small, and illegal by itself.
func TestWitness(t *testing.T) {
	for _, lease := range []bool{false, true} {
		ops, holds, ok := plantGrant(simulateLock(16, 5_000, 10, lease), lease)
		if !ok {
			t.Fatal("no room for a second grant")
		}
		judge := func(ops []LockOp) Verdict {
			if lease {
				return Lease(ops, leaseRules)
			}
			return Lock(ops, LockRules{})
		}
		v := judge(ops)
		var part []LockOp
		for _, i := range v.Witness {
			part = append(part, ops[i])
			if !slices.Contains(holds[:], ops[i].Hold) {
				t.Errorf("lease %v: operation %d is of hold %d, not of %v", lease, i, ops[i].Hold, holds)
			}
		}
		if len(part) > 10 || judge(part).Result != Illegal {
			t.Errorf("lease %v: a witness of %d operations is %v:\n%s", lease, len(part), judge(part).Result, show(part))
		}
	}
}

// Operations are found again after they were sorted by key.
func TestKeys(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	var ops []LockOp
	for key := range int32(20) {
		for h := range int64(5) {
			a, b := acquire(h, 10*h, 10*h+1), release(h, 10*h+2, 10*h+3)
			a.Key, b.Key = key, key
			ops = append(ops, a, b)
		}
	}
	bad := acquire(77, 11, 11)
	bad.Key, ops = 13, append(ops, acquire(77, 11, 11))
	ops[len(ops)-1] = bad
	r.Shuffle(len(ops), func(i, j int) { ops[i], ops[j] = ops[j], ops[i] })
	v := Lock(ops, LockRules{})
	if v.Result != Illegal || v.Key != 13 || len(v.Witness) == 0 {
		t.Fatalf("%+v, want illegal at key 13", v)
	}
	for _, i := range v.Witness {
		if ops[i].Key != 13 {
			t.Errorf("operation %d of the witness is of key %d", i, ops[i].Key)
		}
	}
	if !slices.ContainsFunc(v.Witness, func(i int) bool { return ops[i].Hold == 77 }) {
		t.Errorf("witness %v does not have the bad grant", v.Witness)
	}
}

// What is illegal on one key stays illegal, whatever the others are.
func TestOneKeyIsEnough(t *testing.T) {
	double := []LockOp{acquire(1, 0, 1), acquire(2, 2, 3)}
	twice := []LockOp{acquire(1, 0, 1), acquire(1, 2, 3)}
	fine := []LockOp{acquire(1, 0, 1)}
	verdicts := map[Result][]LockOp{Illegal: double, Unknown: twice, Legal: fine}
	for _, order := range [][]Result{{Illegal, Unknown, Legal}, {Unknown, Illegal, Legal}, {Legal, Unknown, Illegal}, {Legal, Illegal, Unknown}, {Legal, Unknown, Legal}} {
		var ops []LockOp
		for key, r := range order {
			for _, op := range verdicts[r] {
				op.Key = int32(key)
				ops = append(ops, op)
			}
		}
		want := Unknown
		if slices.Contains(order, Illegal) {
			want = Illegal
		}
		if v := Lock(ops, LockRules{}); v.Result != want || v.Key != int32(slices.Index(order, want)) {
			t.Errorf("keys that are %v: %v at key %d", order, v.Result, v.Key)
		}
	}
}

func TestSortEvents(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	for _, span := range []int64{1, 5, 3000, 1 << 40, 1<<63 - 1} {
		events := make([]event, 3000)
		for i := range events {
			events[i] = event{time: r.Int64N(span) - span/2, ref: int32(i)}
		}
		want := slices.Clone(events)
		slices.SortStableFunc(want, func(a, b event) int {
			if a.time < b.time {
				return -1
			}
			if a.time > b.time {
				return 1
			}
			return 0
		})
		if !slices.Equal(sortEvents(events), want) {
			t.Errorf("times within %d are not sorted", span)
		}
	}
}

func TestDifferentAmounts(t *testing.T) {
	if _, v := SameAmount([]int64{10, 10, 20}); v.Result != Unknown || !slices.Equal(v.Witness, []int{0, 2}) {
		t.Errorf("%+v, want unknown because of 0 and 2", v)
	}
	if a, v := SameAmount([]int64{10, 10}); a != 10 || v.Result != Legal {
		t.Errorf("%d, %+v, want 10", a, v)
	}
}

// What a history says, and what it leaves out.
func TestAdapters(t *testing.T) {
	ops := []history.Operation{
		{Op: history.Acquire, Key: "a", Hold: 1, Invoke: 1, Return: 2, Outcome: history.OK, Fence: 4},
		{Op: history.Acquire, Key: "a", Hold: 2, Invoke: 1, Return: 3, Outcome: history.Fail, Code: history.Busy},
		{Op: history.Acquire, Key: "a", Hold: 3, Invoke: 1, Return: 3, Outcome: history.Fail, Code: history.Refused},
		{Op: history.Buy, Key: "s", Hold: 1, Invoke: 3, Return: 4, Outcome: history.OK, Value: 5, Known: true},
		{Op: history.Buy, Key: "s", Hold: 1, Invoke: 4, Return: 5, Outcome: history.Fail, Code: history.GaveUp},
		{Op: history.Withdraw, Key: "s", Hold: 1, Invoke: 5, Return: history.Never, Outcome: history.Info},
		{Op: history.Read, Key: "s", Invoke: 5, Return: history.Never, Outcome: history.Info},
		{Op: history.Release, Key: "a", Hold: 1, Invoke: 6, Return: 7, Outcome: history.Fail, Code: history.NotHeld},
		{Op: history.Extend, Key: "b", Hold: 9, Invoke: 8, Return: history.Never, Outcome: history.Info},
		{Op: history.Buy, Key: "s", Hold: 1, Invoke: 9, Return: 9, Outcome: history.Fail, Code: history.SoldOut},
	}
	l := Locks(ops)
	want := []LockOp{
		acquire(1, 1, 2), failed(acquire(2, 1, 3)), failed(release(1, 6, 7)), unsure(extend(9, 8, 0)),
	}
	want[3].Key = 1
	if !slices.Equal(l.Ops, want) || !slices.Equal(l.Index, []int{0, 1, 7, 8}) || !slices.Equal(l.Keys, []string{"a", "b"}) {
		t.Errorf("locks: %+v", l)
	}
	if g, at := l.Grants(); len(g) != 1 || g[0] != (Grant{1, 2, 4, 0}) || at[0] != 0 {
		t.Errorf("grants: %v at %v", g, at)
	}
	s := Stocks(ops)
	wantStock := []StockOp{
		{Invoke: 3, Return: 4, Value: 5, Known: true, Kind: Buy, Outcome: OK},
		{Invoke: 5, Return: Never, Kind: Buy, Outcome: Info},
		{Invoke: 9, Return: 9, Kind: Buy, Outcome: Fail},
	}
	if !slices.Equal(s.Ops, wantStock) || !slices.Equal(s.Index, []int{3, 5, 9}) {
		t.Errorf("stocks: %+v", s)
	}
	if rules, ok := Expiry(&history.Header{Expires: true, TTL: 7, Margin: 2}); !ok || rules.TTL != 7 || rules.Margin != 2 {
		t.Errorf("expiry: %+v, %v", rules, ok)
	}
	if _, ok := Expiry(&history.Header{TTL: 7}); ok {
		t.Error("a lock that does not expire has lease rules")
	}
}
