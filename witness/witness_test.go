package witness

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"lockstress/history"
	"lockstress/internal/clock"
	"lockstress/internal/proc"
	"lockstress/internal/redistest"
	"lockstress/topology"
)

func start(t *testing.T, spec topology.Spec) *topology.Topology {
	t.Helper()
	redistest.Need(t)
	g, err := proc.NewGroup()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	top, err := topology.Start(t.Context(), g, spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { top.Close() })
	return top
}

// owner is the hold N of a value "oN".
func owner(value string) int64 {
	n, _ := strconv.ParseInt(strings.TrimPrefix(value, "o"), 10, 64)
	if !strings.HasPrefix(value, "o") {
		return 0
	}
	return n
}

func watch(t *testing.T, n *topology.Node) *Witness {
	t.Helper()
	w, err := Watch(t.Context(), n.Addr, n.Name, Options{Owner: owner})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

func connect(t *testing.T, n *topology.Node, name string) *redis.Client {
	c := redis.NewClient(&redis.Options{
		Addr: n.Addr, ClientName: name, MaxRetries: -1, PoolSize: 1, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	t.Cleanup(func() { c.Close() })
	return c
}

// do runs a command given as one string; a "|" stands between commands.
func do(t *testing.T, c *redis.Client, commands string) {
	t.Helper()
	for command := range strings.SplitSeq(commands, "|") {
		var args []any
		for _, a := range strings.Fields(command) {
			args = append(args, a)
		}
		c.Do(t.Context(), args...) // refusals are part of the game
	}
}

func eval(t *testing.T, c *redis.Client, script string, keys []string, args ...any) {
	t.Helper()
	if err := c.Eval(t.Context(), script, keys, args...).Err(); err != nil && !errors.Is(err, redis.Nil) {
		t.Fatal(err)
	}
}

func wait(t *testing.T, w *Witness) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := w.Sync(ctx); err != nil {
		t.Fatal(err)
	}
}

// await returns once there are n effects, which are on their way.
func await(t *testing.T, w *Witness, n int) []Seen {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); ; {
		wait(t, w)
		if seen := w.Seen(); len(seen) >= n {
			return seen
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d effects of %d: %v", len(w.Seen()), n, brief(w.Seen()))
		}
	}
}

// brief says what was seen: effect, hold, by whom, and milliseconds to live.
func brief(seen []Seen) []string {
	var all []string
	for _, s := range seen {
		b := fmt.Sprintf("%s %d by %d", s.Effect, s.Hold, s.By)
		if s.TTL != 0 {
			// Of a long expiry set by an earlier command some milliseconds may be gone.
			unit := time.Millisecond
			if s.TTL > int64(5*time.Second) {
				unit = time.Second
			}
			b += fmt.Sprintf(" %dms", time.Duration(s.TTL).Round(unit).Milliseconds())
		}
		all = append(all, b)
	}
	return all
}

func expect(t *testing.T, what string, seen []Seen, want ...string) {
	t.Helper()
	if got := brief(seen); !slices.Equal(got, want) {
		t.Errorf("%s\n got %q\nwant %q", what, got, want)
		for _, s := range seen {
			t.Log(s.Text)
		}
	}
}

const k = "{stress:1}"

func TestCommands(t *testing.T) {
	n := start(t, topology.Spec{Kind: topology.Single}).Primary()
	w := watch(t, n)
	in100s := func(unit time.Duration) string {
		return fmt.Sprint(time.Now().Add(100*time.Second).UnixNano() / int64(unit))
	}
	for _, c := range []struct {
		do   string
		want []string
	}{
		{"SET @ o1 NX PX 30000", []string{"set 1 by 1 30000ms"}},
		{"SET @ o1 PX 30000|SET @ o2 NX PX 30000", []string{"set 1 by 1 30000ms", "denied 2 by 2"}},
		{"set @ o1 ex 30", []string{"set 1 by 1 30000ms"}},
		{"SET @ o1 EXAT 99999999999999", []string{"set 1 by 1"}}, // only its TTL is checked below
		{"SET @ o1|SET @ o2 KEEPTTL", []string{"set 1 by 1", "set 2 by 2"}},
		{"SET @ o1 PX 0", []string{"denied 1 by 1"}}, // an error
		{"SETNX @ o1|SETNX @ o2", []string{"set 1 by 1", "denied 2 by 2"}},
		{"SETEX @ 30 o1|PSETEX @ 20000 o2", []string{"set 1 by 1 30000ms", "set 2 by 2 20000ms"}},
		{"SETNX @ o1|EXPIRE @ 30", []string{"set 1 by 1", "extended 1 by 1 30000ms"}},
		{"SETNX @ o1|PEXPIRE @ 30000|PERSIST @", []string{"set 1 by 1", "extended 1 by 1 30000ms", "extended 1 by 1"}},
		{"SET @ o1|PEXPIRE @ -1", []string{"set 1 by 1", "removed 1 by 1"}},
		{"PEXPIRE @ 1000|PERSIST @|DEL @|UNLINK @", []string{"denied 0 by 0", "denied 0 by 0", "denied 0 by 0", "denied 0 by 0"}},
		{"SET @ o1|GETEX @ PX 30000", []string{"set 1 by 1", "extended 1 by 1 30000ms"}},
		{"SET @ o1|EXPIRE @ 30 XX", []string{"set 1 by 1", "denied 1 by 1"}},
		{"SET @ o1|GETSET @ o2", []string{"set 1 by 1", "set 2 by 2"}},
		{"SET @ o1|GETDEL @|GETDEL @", []string{"set 1 by 1", "removed 1 by 1", "denied 1 by 1"}},
		{"SET @ o1|DEL {stress:2} @", []string{"set 1 by 1", "removed 1 by 1"}},
		{"SET @ o1|UNLINK @", []string{"set 1 by 1", "removed 1 by 1"}},
		{"SET @ locked NX|SET @ locked NX|DEL @", []string{"set 0 by 0", "denied 0 by 0", "removed 0 by 0"}},
		{"HSET @ o1 1 |HINCRBY @ o1 1|HINCRBY @ o1 -1|HDEL @ o1", []string{"set 1 by 1", "set 1 by 1", "set 1 by 1", "removed 1 by 1"}},
		{"HSET @ owner o1 count 1|PEXPIRE @ 30000|HINCRBY @ count 1", []string{"set 1 by 1", "extended 1 by 1 30000ms", "set 1 by 1 30000ms"}},
		{"HSETNX @ owner o1|HSETNX @ owner o2|HDEL @ nothing", []string{"set 1 by 1", "denied 2 by 2", "denied 2 by 2"}},
		{"SET @ o1|RENAME @ elsewhere|RENAME elsewhere @", []string{"set 1 by 1", "removed 1 by 1", "set 0 by 1"}},
		{"SET @ o1|SET {stress:2} o2|FLUSHALL", []string{"set 1 by 1", "set 2 by 2", "removed 1 by 0", "removed 2 by 0"}},
		{"SET @ o1|MULTI|SET @ o2|DEL @|EXEC", []string{"set 1 by 1", "set 2 by 2", "removed 2 by 2"}},
		// Nothing to be seen:
		{"INCR @:fence|SET @:stock 5|DEL @:stock|SET other o1|GET @|PTTL @|EXISTS @|HGETALL @|WATCH @|PING|NOSUCH @", nil},
		{"SELECT 1|SET @ o1|DEL @|FLUSHDB|SELECT 0", nil},
	} {
		client := connect(t, n, "")
		before := len(w.Seen())
		do(t, client, strings.ReplaceAll(c.do, "@", k))
		wait(t, w)
		seen := w.Seen()[before:]
		for i := range seen {
			if strings.Contains(c.do, "9999999") {
				seen[i].TTL = 0
			}
		}
		expect(t, c.do, seen, c.want...)
		for _, s := range seen {
			if s.Process != history.Witness || s.Type != history.Note || s.Op != history.Exec || s.Node != "n1" || s.Text == "" ||
				(s.Key != k && s.Key != "{stress:2}") || s.Time == 0 || s.Conn == "" {
				t.Errorf("%s: %+v", c.do, s)
			}
		}
		client.Del(t.Context(), k)
		client.Close()
		wait(t, w)
	}
	// Moments instead of spans: what is left is near 100 s.
	c := connect(t, n, "")
	before := len(w.Seen())
	do(t, c, strings.ReplaceAll("SET @ o1 PXAT "+in100s(time.Millisecond)+"|SET @ o1 EXAT "+in100s(time.Second)+
		"|PEXPIREAT @ "+in100s(time.Millisecond)+"|EXPIREAT @ "+in100s(time.Second), "@", k))
	wait(t, w)
	seen := w.Seen()[before:]
	if len(seen) != 4 {
		t.Fatalf("%v", brief(seen))
	}
	for _, s := range seen {
		if d := time.Duration(s.TTL); d < 90*time.Second || d > 100*time.Second {
			t.Errorf("%s: %v to live", s.Text, d)
		}
	}
}

const (
	compareAndDelete = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`
	compareAndExpire = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0`
	fencedAcquire    = `if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return redis.call('INCR', KEYS[1] .. ':fence') end return 0`
	reentrantAcquire = `if redis.call('EXISTS', KEYS[1]) == 0 or redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then
	redis.call('HINCRBY', KEYS[1], ARGV[1], 1) redis.call('PEXPIRE', KEYS[1], ARGV[2]) return 1 end return 0`
)

func TestScripts(t *testing.T) {
	n := start(t, topology.Spec{Kind: topology.Single}).Primary()
	w, c, ctx := watch(t, n), connect(t, n, ""), t.Context()
	keys := []string{k}
	for _, s := range []struct {
		what string
		do   func()
		want []string
	}{
		{"acquired", func() { eval(t, c, fencedAcquire, keys, "o1", 30000) }, []string{"set 1 by 1 30000ms"}},
		{"refused", func() { eval(t, c, fencedAcquire, keys, "o2", 30000) }, []string{"denied 2 by 2"}},
		{"not the owner's release", func() { eval(t, c, compareAndDelete, keys, "o2") }, []string{"denied 2 by 2"}},
		{"not the owner's extension", func() { eval(t, c, compareAndExpire, keys, "o2", 9000) }, []string{"denied 2 by 2"}},
		{"extension", func() { eval(t, c, compareAndExpire, keys, "o1", 9000) }, []string{"extended 1 by 1 9000ms"}},
		{"release", func() { eval(t, c, compareAndDelete, keys, "o1") }, []string{"removed 1 by 1"}},
		{"released before", func() { eval(t, c, compareAndDelete, keys, "o1") }, []string{"denied 1 by 1"}},
		{"unknown script", func() { c.EvalSha(ctx, strings.Repeat("0", 40), keys, "o1") }, nil},
		{"by its hash", func() {
			c.Set(ctx, k, "o4", 0)
			s := redis.NewScript(compareAndDelete)
			s.Load(ctx, c)
			s.EvalSha(ctx, c, keys, "o4")
		}, []string{"set 4 by 4", "removed 4 by 4"}},
		{"in a transaction", func() {
			c.TxPipelined(ctx, func(p redis.Pipeliner) error {
				p.Eval(ctx, fencedAcquire, keys, "o1", 30000)
				p.Eval(ctx, compareAndDelete, keys, "o9")
				p.Eval(ctx, compareAndDelete, keys, "o1")
				return nil
			})
		}, []string{"set 1 by 1 30000ms", "denied 9 by 9", "removed 1 by 1"}},
		{"reentrant", func() {
			for _, o := range []string{"o1", "o1", "o2"} {
				eval(t, c, reentrantAcquire, keys, o, 30000)
			}
		}, []string{"set 1 by 1", "extended 1 by 1 30000ms", "set 1 by 1 30000ms", "extended 1 by 1 30000ms", "denied 2 by 2"}},
		{"other keys", func() { eval(t, c, `return redis.call('SET', KEYS[1], ARGV[1])`, []string{k + ":stock"}, "o1") }, nil},
	} {
		before := len(w.Seen())
		s.do()
		wait(t, w)
		expect(t, s.what, w.Seen()[before:], s.want...)
	}
	// A script that meets a key which is due.
	before := len(w.Seen())
	c.Set(ctx, k, "o5", 5*time.Millisecond)
	for len(w.Seen()) == before || w.Seen()[len(w.Seen())-1].Effect != history.Removed {
		eval(t, c, fencedAcquire, keys, "o6", 30000)
		eval(t, c, compareAndDelete, keys, "o6")
		wait(t, w)
	}
	effective := slices.DeleteFunc(slices.Clone(w.Seen()[before:]), func(s Seen) bool { return s.Effect == history.Denied })
	expect(t, "expired meanwhile", effective, "set 5 by 5 5ms", "expired 5 by 0", "set 6 by 6 30000ms", "removed 6 by 6")
}

func TestTexts(t *testing.T) {
	n := start(t, topology.Spec{Kind: topology.Single}).Primary()
	w := watch(t, n)
	a, b, ctx := connect(t, n, "a"), connect(t, n, "b"), t.Context()
	do(t, a, "SET "+k+" o3 NX PX 500")
	do(t, b, "SET "+k+" o4 NX PX 500")
	do(t, b, "SET "+k+" o4 PX 500")
	do(t, a, "DEL "+k)
	do(t, a, "DEL "+k)
	eval(t, a, compareAndDelete, []string{k}, "o3")
	do(t, b, "SET "+k+" o4")
	eval(t, a, compareAndDelete, []string{k}, "o3")
	eval(t, b, compareAndExpire, []string{k}, "o4", 500)
	do(t, b, "DEL "+k)
	c := connect(t, n, "c7")
	do(t, c, "SET "+k+" locked EX 1|SET "+k+" locked NX|DEL "+k)
	if err := w.Sync(ctx); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range w.Seen() {
		got = append(got, s.Text)
	}
	want := []string{
		"SET {stress:1} by hold 3, expires in 500 ms",
		"SET by hold 4 changed nothing: the key is that of hold 3",
		"SET {stress:1} by hold 4, expires in 500 ms",
		"DEL by hold 3 removed the key of hold 4",
		"DEL by hold 3 changed nothing: there is no key",
		"a script by hold 3 changed nothing: there is no key",
		"SET {stress:1} by hold 4, never expires",
		"a script by hold 3 changed nothing: the key is that of hold 4",
		"PEXPIRE in a script by hold 4 on the key of hold 4: expires in 500 ms",
		"DEL by hold 4 removed the key of hold 4, its own",
		`SET {stress:1} by client c7 for "locked", expires in 1000 ms`,
		`SET by client c7 changed nothing: the key is that of "locked"`,
		`DEL by client c7 removed the key of "locked"`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestExpiry(t *testing.T) {
	n := start(t, topology.Spec{Kind: topology.Single}).Primary()
	w, c := watch(t, n), connect(t, n, "")
	began := clock.Now()
	do(t, c, "SET "+k+" o1 PX 50")
	seen := await(t, w, 2)
	expect(t, "left alone", seen, "set 1 by 1 50ms", "expired 1 by 0")
	if d := time.Duration(seen[1].Time - began); d < 49*time.Millisecond {
		t.Errorf("expired after %v", d)
	}
	if seen[1].Text != "the key of hold 1 expired" {
		t.Error(seen[1].Text)
	}
	do(t, c, "SET "+k+" o2 PX 20")
	for c.Exists(t.Context(), k).Val() != 0 {
	}
	seen = await(t, w, 4)
	expect(t, "looked at", seen[2:], "set 2 by 2 20ms", "expired 2 by 0")
}

func TestEviction(t *testing.T) {
	n := start(t, topology.Spec{Kind: topology.Single}).Primary()
	w, c, ctx := watch(t, n), connect(t, n, ""), t.Context()
	do(t, c, "SET "+k+" o1|CONFIG SET maxmemory-policy allkeys-random|CONFIG SET maxmemory 3mb")
	for i := 0; c.Exists(ctx, k).Val() == 1; i++ {
		c.Set(ctx, "filler"+strconv.Itoa(i), strings.Repeat("x", 10_000), 0)
	}
	wait(t, w)
	expect(t, "evicted", w.Seen(), "set 1 by 1", "evicted 1 by 0")
}

// Many clients at once: what the server says agrees with what each client was told.
func TestConcurrent(t *testing.T) {
	n := start(t, topology.Spec{Kind: topology.Single}).Primary()
	w, ctx := watch(t, n), t.Context()
	var granted, refused, released, late atomic.Int64
	var wg sync.WaitGroup
	for client := range 8 {
		c := connect(t, n, "")
		wg.Go(func() {
			for i := range 150 {
				key := fmt.Sprintf("{stress:%d}", rand.IntN(3))
				value := fmt.Sprintf("o%d", 1+client*1000+i)
				ok, err := c.SetNX(ctx, key, value, 5*time.Second).Result()
				if err != nil {
					t.Error(err)
					return
				}
				c.Set(ctx, "noise", value, 0)
				if !ok {
					refused.Add(1)
				} else {
					granted.Add(1)
				}
				gone, err := c.Eval(ctx, compareAndDelete, []string{key}, value).Int()
				if err != nil {
					t.Error(err)
					return
				}
				if gone == 1 {
					released.Add(1)
				} else {
					late.Add(1)
				}
			}
		})
	}
	wg.Wait()
	wait(t, w)
	count, holder, at := map[history.Effect]int64{}, map[string]int64{}, int64(0)
	for _, s := range w.Seen() {
		count[s.Effect]++
		if s.Time < at {
			t.Errorf("out of order: %s", s.Text)
		}
		at = s.Time
		switch now := holder[s.Key]; s.Effect {
		case history.Set:
			if now != 0 || s.Hold == 0 {
				t.Errorf("%s, but hold %d has it", s.Text, now)
			}
			holder[s.Key] = s.Hold
		case history.Removed:
			if now != s.Hold || s.By != now {
				t.Errorf("%s, but hold %d has it", s.Text, now)
			}
			holder[s.Key] = 0
		case history.Denied:
			if now == s.Hold {
				t.Errorf("%s, though hold %d has it", s.Text, now)
			}
		}
	}
	if count[history.Set] != granted.Load() || count[history.Removed] != released.Load() ||
		count[history.Denied] != refused.Load()+late.Load() || granted.Load() != released.Load() || refused.Load() == 0 {
		t.Errorf("server %v; clients: %d granted, %d refused, %d released, %d not held",
			count, granted.Load(), refused.Load(), released.Load(), late.Load())
	}
}

func TestKilledAndRestarted(t *testing.T) {
	n := start(t, topology.Spec{Kind: topology.Single}).Primary()
	w, c, ctx := watch(t, n), connect(t, n, ""), t.Context()
	do(t, c, "SET "+k+" o1 PX 60000")
	wait(t, w)
	if err := w.Err(); err != nil {
		t.Fatal(err)
	}
	if err := n.Kill(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-w.Done():
	case <-time.After(5 * time.Second):
		t.Fatal("the witness has not noticed")
	}
	if err := w.Err(); !errors.Is(err, ErrEnded) {
		t.Errorf("after the kill: %v", err)
	}
	if err := w.Sync(ctx); !errors.Is(err, ErrEnded) {
		t.Errorf("sync after the kill: %v", err)
	}
	if err := w.Rewatch(ctx); err == nil {
		t.Error("a dead server is watched")
	}
	expect(t, "before the kill", w.Seen(), "set 1 by 1 60000ms")
	if err := n.Restart(ctx, topology.RestartOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := w.Rewatch(ctx); err != nil {
		t.Fatal(err)
	}
	c = connect(t, n, "")
	do(t, c, "SET "+k+" o2 NX PX 60000")
	wait(t, w)
	expect(t, "after the restart", w.Seen(), "set 1 by 1 60000ms", "removed 1 by 0", "set 2 by 2 60000ms")
	if len(w.Gaps()) != 1 || w.Gaps()[0].To <= w.Gaps()[0].From {
		t.Errorf("gaps: %v", w.Gaps())
	}
}

// A Sync under way when the server dies ends.
func TestSyncEndsWithServer(t *testing.T) {
	n := start(t, topology.Spec{Kind: topology.Single}).Primary()
	w := watch(t, n)
	if err := n.Pause(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- w.Sync(t.Context()) }()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := w.Sync(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("sync with a paused server: %v", err)
	}
	if err := n.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, ErrEnded) {
		t.Errorf("sync while the server was killed: %v", err)
	}
}

// What is there when the watching begins is known, and settings are put back.
func TestWatchLate(t *testing.T) {
	n := start(t, topology.Spec{Kind: topology.Single}).Primary()
	c, ctx := connect(t, n, "late"), t.Context()
	do(t, c, "SET "+k+" o1 PX 60000|HSET {stress:2} owner o2 count 1|SET {stress:3} x|SET other o1|CONFIG SET notify-keyspace-events Kx")
	w := watch(t, n)
	wait(t, w)
	if got := brief(w.Seen()); len(got) != 3 || !strings.HasPrefix(got[0], "set 1 by 0 ") || got[1] != "set 2 by 0" || got[2] != "set 0 by 0" {
		t.Errorf("%q", got)
	}
	if ttl := time.Duration(w.Seen()[0].TTL); ttl > time.Minute || ttl < 50*time.Second {
		t.Errorf("%v to live", ttl)
	}
	do(t, c, "DEL "+k)
	wait(t, w)
	if s := w.Seen()[3]; s.Effect != history.Removed || s.Hold != 1 || s.Client != "late" {
		t.Errorf("%+v", s)
	}
	// The connection is lost, as when a Sentinel closes all, and made again.
	seen := len(w.Seen())
	c.Do(ctx, "CLIENT", "KILL", "TYPE", "pubsub")
	do(t, c, "DEL {stress:2}|SET "+k+" o5")
	for len(w.Gaps()) == 0 {
		wait(t, w)
	}
	wait(t, w)
	expect(t, "around the gap", byKey(w.Seen()[seen:]), "set 5 by "+fmt.Sprint(by(w.Seen()[seen:])), "removed 2 by 0")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if got := c.ConfigGet(ctx, "notify-keyspace-events").Val()["notify-keyspace-events"]; got != "xK" && got != "Kx" {
		t.Errorf("notify-keyspace-events is %q", got)
	}
	if err := w.Sync(ctx); err == nil {
		t.Error("a closed witness syncs")
	}
}

// byKey forgets in which order keys were reported.
func byKey(seen []Seen) []Seen {
	s := slices.Clone(seen)
	slices.SortFunc(s, func(a, b Seen) int { return strings.Compare(a.Key, b.Key) })
	for i := range s {
		if s[i].Effect == history.Removed {
			s[i].By = 0
		}
	}
	return s
}

// by is 5 if the SET itself was seen, 0 if only what it left.
func by(seen []Seen) int64 {
	for _, s := range seen {
		if s.Effect == history.Set {
			return s.By
		}
	}
	return -1
}

func TestReplica(t *testing.T) {
	top := start(t, topology.Spec{Kind: topology.Replicated})
	w, c := watch(t, top.Replicas()[0]), connect(t, top.Primary(), "")
	do(t, c, "SET "+k+" o1 PX 30")
	expired := await(t, w, 2)
	do(t, c, "SET "+k+" o2 PX 60000")
	eval(t, c, compareAndDelete, []string{k}, "o2")
	seen := await(t, w, 4)
	if len(expired) < 2 || expired[1].Effect != history.Expired || expired[1].Hold != 1 {
		t.Errorf("%q", brief(seen))
	}
	for _, i := range []int{0, 2, 3} {
		if !seen[i].Replicated || seen[i].By != 0 {
			t.Errorf("not from the primary: %+v", seen[i])
		}
	}
	if seen[3].Text != "DEL from the primary removed the key of hold 2" {
		t.Error(seen[3].Text)
	}
}

// Through a failover the witness of the replica goes on watching.
func TestSentinel(t *testing.T) {
	top := start(t, topology.Spec{Kind: topology.Sentinel})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	old := top.Primary()
	w := watch(t, top.Replicas()[0])
	do(t, old.Client(), "SET "+k+" o1")
	await(t, w, 1)
	if err := old.Kill(); err != nil {
		t.Fatal(err)
	}
	now, err := top.WaitFailover(ctx, old)
	if err != nil {
		t.Fatal(err)
	}
	c := connect(t, now, "")
	do(t, c, "SET "+k+" o2 NX|DEL "+k+"|SET "+k+" o3 NX PX 60000")
	wait(t, w)
	expect(t, "after the failover", w.Seen(), "set 1 by 0", "denied 2 by 2", "removed 1 by 2", "set 3 by 3 60000ms")
	if len(w.Gaps()) == 0 {
		t.Error("the promotion closed no connection: then the gap is not tested")
	}
	for _, g := range w.Gaps() {
		t.Logf("nobody watched for %v", time.Duration(g.To-g.From))
	}
}
