package lock_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lockstress/impls/lock"
	"lockstress/impls/locktest"
)

// reply is an error reply as any client may hold it.
type reply string

func (r reply) Error() string { return string(r) }
func (reply) RedisError()     {}

func TestCertain(t *testing.T) {
	dial := &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	read := &net.OpError{Op: "read", Net: "tcp", Err: os.ErrDeadlineExceeded}
	tests := []struct {
		name string
		err  error
		want bool
	}{
		{"nil", nil, false},
		{"busy", lock.ErrBusy, true},
		{"not held", lock.ErrNotHeld, true},
		{"refused for a timeout elsewhere", fmt.Errorf("%w: %w", lock.ErrRefused, read), true},
		{"unsupported", lock.ErrUnsupported, true},
		{"unknown", lock.ErrUnknown, false},
		{"unknown beats what it wraps", fmt.Errorf("%w: %w", lock.ErrUnknown, lock.ErrBusy), false},

		{"dial refused", dial, true},
		{"dial timed out", &net.OpError{Op: "dial", Net: "tcp", Err: context.DeadlineExceeded}, true},
		{"bare ECONNREFUSED", syscall.ECONNREFUSED, true},
		{"no such host", &net.DNSError{Err: "no such host", Name: "r", IsNotFound: true}, true},
		{"pool timeout", redis.ErrPoolTimeout, true},
		{"pool exhausted", redis.ErrPoolExhausted, true},
		{"client closed", redis.ErrClosed, true},
		{"no sentinel", fmt.Errorf("redis: all sentinels specified in configuration are unreachable: %w", io.EOF), true},

		{"read timeout", read, false},
		{"read reset", &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}, false},
		{"broken pipe", &net.OpError{Op: "write", Net: "tcp", Err: syscall.EPIPE}, false},
		{"connection closed", net.ErrClosed, false},
		{"EOF", io.EOF, false},
		{"unexpected EOF", io.ErrUnexpectedEOF, false},
		{"cancelled", context.Canceled, false},
		{"deadline", context.DeadlineExceeded, false},
		{"redis.Nil", redis.Nil, false},
		{"unheard of", errors.New("redis: can't parse reply"), false},

		{"READONLY", reply("READONLY You can't write against a read only replica."), true},
		{"LOADING", reply("LOADING Redis is loading the dataset in memory"), true},
		{"MASTERDOWN", reply("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."), true},
		{"CLUSTERDOWN", reply("CLUSTERDOWN The cluster is down"), true},
		{"TRYAGAIN", reply("TRYAGAIN Multiple keys request during rehashing of slot"), true},
		{"MOVED", reply("MOVED 3999 127.0.0.1:6381"), true},
		{"ASK", reply("ASK 3999 127.0.0.1:6381"), true},
		{"CROSSSLOT", redis.ErrCrossSlot, true},
		{"OOM", reply("OOM command not allowed when used memory > 'maxmemory'."), true},
		{"MISCONF", reply("MISCONF Redis is configured to save RDB snapshots, but …"), true},
		{"NOREPLICAS", reply("NOREPLICAS Not enough good replicas to write."), true},
		{"NOSCRIPT", redis.ErrNoScript, true},
		{"NOAUTH", reply("NOAUTH Authentication required."), true},
		{"WRONGPASS", reply("WRONGPASS invalid username-password pair"), true},
		{"NOPERM", reply("NOPERM this user has no permissions"), true},
		{"WRONGTYPE", reply("WRONGTYPE Operation against a key holding the wrong kind of value"), true},
		{"BUSY", reply("BUSY Redis is busy running a script."), true},
		{"EXECABORT", reply("EXECABORT Transaction discarded because of previous errors."), true},
		{"max clients", reply("ERR max number of clients reached"), true},
		{"unknown command", reply("ERR unknown command 'SETNXX', with args beginning with: "), true},
		{"syntax", reply("ERR syntax error"), true},
		{"ERR from a proxy", reply("ERR Connection timed out"), false},
		{"UNBLOCKED", reply("UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)"), false},
		{"a code of the future", reply("NEWCODE something"), false},
		{"a code's beginning only", reply("OOMPH"), false},

		{"script, WRONGTYPE", reply("WRONGTYPE Operation against a key holding the wrong kind of value script: f2a…, on @user_script:3."), false},
		{"script, ERR", reply("ERR value is not an integer or out of range script: f2a…, on @user_script:3."), false},
		{"script, Lua error", reply("ERR user_script:1: Script attempted to access nonexistent global variable 'x' script: f2a…, on @user_script:1."), false},
		{"script, READONLY", reply("READONLY You can't write against a read only replica. script: f2a…, on @user_script:1."), true},
		{"script, OOM", reply("OOM command not allowed when used memory > 'maxmemory'. script: f2a…, on @user_script:1."), true},
		{"script, READONLY, Redis 6", reply("ERR Error running script (call to f_f2a…): @user_script:1: @user_script: 1: -READONLY You can't write against a read only replica. "), true},
		{"script, WRONGTYPE, Redis 6", reply("ERR Error running script (call to f_f2a…): @user_script:1: -WRONGTYPE Operation against a key"), false},

		{"two certain", errors.Join(dial, reply("LOADING x")), true},
		{"one of two certain", errors.Join(dial, read), false},
		{"one of two certain, the other way round", fmt.Errorf("%w, %w", io.EOF, reply("LOADING x")), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := lock.Certain(tt.err); got != tt.want {
				t.Errorf("Certain(%v) = %v, want %v", tt.err, got, tt.want)
			}
			if tt.err == nil {
				if lock.Settle(nil) != nil {
					t.Error("Settle(nil) is an error")
				}
				return
			}
			wrapped := fmt.Errorf("acquiring {k}: %w", fmt.Errorf("SET: %w", tt.err))
			if got := lock.Certain(wrapped); got != tt.want {
				t.Errorf("wrapped: Certain(%v) = %v, want %v", wrapped, got, tt.want)
			}
			settled := lock.Settle(wrapped)
			if got := lock.Certain(settled); got != tt.want {
				t.Errorf("settled: Certain(%v) = %v, want %v", settled, got, tt.want)
			}
			if errors.Is(settled, lock.ErrUnknown) == tt.want {
				t.Errorf("Settle(%v) = %v", wrapped, settled)
			}
			if !errors.Is(settled, tt.err) {
				t.Errorf("Settle(%v) = %v does not wrap it", wrapped, settled)
			}
		})
	}
}

// What go-redis and a server really return.
func TestCertainForReal(t *testing.T) {
	ctx := t.Context()
	server := locktest.Start(t)
	c := server.Client(t)

	replica := locktest.Start(t)
	_, port, _ := net.SplitHostPort(server.Addr)
	r := replica.Client(t)
	if err := r.ReplicaOf(ctx, "127.0.0.1", port).Err(); err != nil {
		t.Fatal(err)
	}
	readonly := r.SetNX(ctx, "{k}", "o", time.Second).Err()
	scripted := r.Eval(ctx, `return redis.call('SET', KEYS[1], 'o')`, []string{"{k}"}).Err()

	if err := c.LPush(ctx, "{list}", 1).Err(); err != nil {
		t.Fatal(err)
	}
	wrongType := c.Get(ctx, "{list}").Err()
	midway := c.Eval(ctx, `redis.call('SET', KEYS[1], 'o') return redis.call('GET', KEYS[2])`, []string{"{k}", "{list}"}).Err()
	if n := c.Exists(ctx, "{k}").Val(); n != 1 {
		t.Fatal("the script that failed midway wrote nothing: the case proves nothing")
	}

	short, cancel := context.WithTimeout(ctx, 30*time.Millisecond)
	defer cancel()
	silent := locktest.Dial(t, locktest.Silent(t)).SetNX(short, "{k}", "o", time.Second).Err()

	if err := c.ConfigSet(ctx, "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	oom := c.SetNX(ctx, "{o}", "o", time.Second).Err()
	scriptedOOM := c.Eval(ctx, `return redis.call('SET', KEYS[1], 'o')`, []string{"{o}"}).Err()

	closed := server.Client(t)
	closed.Close()
	afterClose := closed.Ping(ctx).Err()

	// Cut a connection while it waits for its answer.
	dropped := server.Client(t)
	cut := make(chan error, 1)
	go func() { cut <- dropped.BLPop(ctx, 0, "{nothing}").Err() }()
	fresh := server.Client(t)
	for {
		info := fresh.Info(ctx, "clients")
		if info.Err() != nil {
			t.Fatal(info.Err())
		}
		if strings.Contains(info.Val(), "blocked_clients:1") {
			break
		}
	}
	if err := fresh.Do(ctx, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").Err(); err != nil {
		t.Fatal(err)
	}
	reset := <-cut

	server.Kill()
	refused := server.Client(t).SetNX(ctx, "{k}", "o", time.Second).Err()

	for _, tt := range []struct {
		name string
		err  error
		want bool
	}{
		{"write to a replica", readonly, true},
		{"script on a replica", scripted, true},
		{"wrong type", wrongType, true},
		{"script that failed after a write", midway, false},
		{"no answer in time", silent, false},
		{"out of memory", oom, true},
		{"script out of memory", scriptedOOM, true},
		{"client closed", afterClose, true},
		{"connection cut", reset, false},
		{"nobody listens", refused, true},
	} {
		if tt.err == nil {
			t.Errorf("%s: no error", tt.name)
		} else if got := lock.Certain(tt.err); got != tt.want {
			t.Errorf("%s: Certain(%v) = %v, want %v", tt.name, tt.err, got, tt.want)
		}
	}
}
