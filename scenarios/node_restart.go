package scenarios

import (
	"context"
	"slices"
	"time"

	"lockstress/impls"
)

// leaseForRestart is a TTL that outlasts the restart of a server by far.
const leaseForRestart = 1500 * time.Millisecond

// nodeRestart: a server that voted for A has forgotten it, and votes for B.
func nodeRestart() Scenario {
	return Scenario{
		Name:    "node_restart/empty",
		Summary: "a server that granted a quorum lock restarts without its data and grants it again",
		Timeline: "A reaches n1, n2 and n3 only and acquires; n3 restarts, empty; B reaches n3, n4 and n5 only and tries; " +
			"A works and releases",
		Faulty:   true,
		Extra:    true,
		Proxied:  true,
		MinTTL:   leaseForRestart,
		Topology: plain,
		Skip:     notQuorum,
		Play:     playNodeRestart,
	}
}

// nodeRestartDurable is the same with servers that write down every vote.
func nodeRestartDurable() Scenario {
	s := nodeRestart()
	s.Name = "node_restart/aof"
	s.Summary = "the same with an append-only file that is synced before every reply: the server has not forgotten"
	s.Timeline = "A reaches n1, n2 and n3 only and acquires; n3 restarts with what it had; B reaches n3, n4 and n5 only and tries; A works and releases; B again"
	s.Topology = func(impls.Info) Topology { return Durable }
	return s
}

// nodeRestartDelayed is the same with a server that stays away for longer than a TTL.
func nodeRestartDelayed() Scenario {
	s := nodeRestart()
	s.Name = "node_restart/delayed"
	s.Summary = "the same with a server that comes back, empty, only when every lease that it had granted is over"
	s.Timeline = "A reaches n1, n2 and n3 only and acquires; n3 dies; B reaches n4 and n5 only and tries; A works and releases; T passes; n3 starts again; B acquires"
	s.Play = playNodeRestartDelayed
	return s
}

// apart lets A reach n1, n2 and n3 only and B n3, n4 and n5, and brings A to its last
// look. It returns the server that both reach.
func apart(ctx context.Context, s Stage) (a Client, common string, ok bool, err error) {
	names := s.Servers().Names()
	middle := len(names) / 2
	if err := s.Cut(0, names[middle+1:]...); err != nil {
		return nil, "", false, err
	}
	if err := s.Cut(1, names[:middle]...); err != nil {
		return nil, "", false, err
	}
	a, _, ok, err = enter(ctx, s, lastLook(s))
	return a, names[middle], ok, err
}

func playNodeRestart(ctx context.Context, s Stage) error {
	ttl := s.Cell().TTL
	a, common, ok, err := apart(ctx, s)
	if err != nil || !ok {
		return err
	}
	before, err := s.Servers().Holders(ctx)
	if err != nil {
		return err
	}
	if err := s.Servers().Restart(ctx, common); err != nil {
		return err
	}
	after, err := s.Servers().Holders(ctx)
	if err != nil {
		return err
	}
	kept := "has forgotten A's key"
	if slices.Contains(after, common) {
		kept = "still has A's key"
	}
	if !slices.Contains(before, common) {
		s.Miss("%s, which restarted, had not been among those that granted A's lock, %v", common, before)
	} else {
		s.Bite("%s, one of %v that had granted A's lock, restarted and %s", common, before, kept)
	}
	// Some tries, all over before A's lease is.
	b := s.Client(1)
	if err := b.Order(once(s, ttl/10)); err != nil {
		return err
	}
	if _, err := b.To(ctx, lastLook(s)); err != nil {
		return err
	}
	if _, err := a.Finish(ctx); err != nil {
		return err
	}
	if _, err := b.Finish(ctx); err != nil {
		return err
	}
	// Afterwards the lock must still be there for others.
	_, err = tryFor(ctx, s, 2, 2*ttl)
	return err
}

func playNodeRestartDelayed(ctx context.Context, s Stage) error {
	ttl := s.Cell().TTL
	a, common, ok, err := apart(ctx, s)
	if err != nil || !ok {
		return err
	}
	granted := time.Now()
	if err := s.Servers().Kill(ctx, common); err != nil {
		return err
	}
	early, err := tryFor(ctx, s, 1, ttl/10)
	if err != nil {
		return err
	}
	if _, err := a.Finish(ctx); err != nil {
		return err
	}
	if err := wait(ctx, granted.Add(ttl)); err != nil {
		return err
	}
	away := time.Since(granted)
	if err := s.Servers().Restart(ctx, common); err != nil {
		return err
	}
	late, err := tryFor(ctx, s, 1, 2*ttl)
	if err != nil {
		return err
	}
	s.Bite("%s, one of those that had granted A's lock, was away for %d ms; client 1 got the lock meanwhile: %v, and afterwards: %v",
		common, away.Milliseconds(), early.client >= 0, late.client >= 0)
	return nil
}
