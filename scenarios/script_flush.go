package scenarios

import (
	"context"

	"lockstress/impls"
	"lockstress/workload"
)

// scriptFlush: a server forgets the scripts that it knew.
func scriptFlush() Scenario {
	return Scenario{
		Name:    "script_flush/fallback",
		Summary: "the server forgets all scripts between acquire and release, and the lock shows them again",
		Timeline: "C takes the lock and gives it back, so that the server knows its scripts; A acquires and works; SCRIPT FLUSH; " +
			"A releases: EVALSHA is answered NOSCRIPT, and EVAL follows; B acquires",
		Faulty:   true,
		Extra:    true,
		Topology: plain,
		Skip:     noScripts,
		Play:     func(ctx context.Context, s Stage) error { return playScriptFlush(ctx, s, false) },
	}
}

// scriptFlushBare is the same for a lock that cannot show the script again. No lock
// here is so careless, so the server forbids EVAL, as some proxies and hosted servers
// do.
func scriptFlushBare() Scenario {
	s := scriptFlush()
	s.Name = "script_flush/no_fallback"
	s.Summary = "the same where EVAL is forbidden, so that the script cannot be shown again: the release fails"
	s.Timeline = "C takes the lock and gives it back; A acquires and works; SCRIPT FLUSH, and EVAL is forbidden; A releases: EVALSHA is answered " +
		"NOSCRIPT, EVAL is refused; EVAL is allowed again; B, who wants the lock, gets it once A's key has expired"
	s.Play = func(ctx context.Context, s Stage) error { return playScriptFlush(ctx, s, true) }
	return s
}

func noScripts(c Cell) string {
	if c.Lock.Family == impls.Naive {
		return "it uses no scripts"
	}
	return noLock(c)
}

func playScriptFlush(ctx context.Context, s Stage, forbid bool) error {
	servers := s.Servers()
	if ok, err := warmUp(ctx, s); err != nil || !ok {
		return err
	}
	a, held, ok, err := enter(ctx, s, workload.BeforeRelease)
	if err != nil || !ok {
		return err
	}
	before, err := sum(ctx, s, "errorstat_NOSCRIPT")
	if err != nil {
		return err
	}
	if err := orderAll(ctx, s, "SCRIPT", "FLUSH", "SYNC"); err != nil {
		return err
	}
	if forbid {
		if err := orderAll(ctx, s, "ACL", "SETUSER", "default", "-eval"); err != nil {
			return err
		}
	}
	stop, err := a.Finish(ctx)
	if err != nil {
		return err
	}
	after, err := sum(ctx, s, "errorstat_NOSCRIPT")
	if err != nil {
		return err
	}
	if forbid {
		if err := orderAll(ctx, s, "ACL", "SETUSER", "default", "+eval"); err != nil {
			return err
		}
	}
	holders, err := servers.Holders(ctx)
	if err != nil {
		return err
	}
	if after == before {
		s.Miss("the release of hold %d used no script that the servers had known", held.Hold)
	} else {
		s.Bite("NOSCRIPT was answered %d times; the release of hold %d ended %q, and %d servers have its key",
			after-before, held.Hold, stop.Release, len(holders))
	}
	_, err = inherit(ctx, s, 1)
	return err
}

// orderAll gives a command to every server of the lock.
func orderAll(ctx context.Context, s Stage, args ...any) error {
	for _, node := range s.Servers().Names() {
		if err := s.Servers().Order(ctx, node, args...); err != nil {
			return err
		}
	}
	return nil
}

// sum adds up a number of INFO over all servers of the lock.
func sum(ctx context.Context, s Stage, field string) (total int64, err error) {
	for _, node := range s.Servers().Names() {
		n, err := s.Servers().Info(ctx, node, field)
		if err != nil {
			return 0, err
		}
		total += n
	}
	return total, nil
}
