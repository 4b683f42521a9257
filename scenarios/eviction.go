package scenarios

import (
	"context"
)

// eviction: the lock's key has to make room.
func eviction() Scenario {
	return Scenario{
		Name:    "eviction/evicting",
		Summary: "a server's memory fills while the lock is held, and its policy evicts the lock's key",
		Timeline: "A acquires and reads; the server, allowed to evict any key, is filled until the lock's keys are gone; B acquires and reads; " +
			"both write and release",
		Faulty:   true,
		Extra:    true,
		MinTTL:   leaseForFilling,
		Topology: plain,
		Skip:     noLock,
		Play:     func(ctx context.Context, s Stage) error { return playEviction(ctx, s, "allkeys-lru") },
	}
}

// evictionRefused is the same with a server that evicts nothing.
func evictionRefused() Scenario {
	s := eviction()
	s.Name = "eviction/noeviction"
	s.Summary = "a server's memory fills while the lock is held, and its policy is to refuse writes"
	s.Timeline = "A acquires and reads; the server, which evicts nothing, is filled until it refuses to write; B tries, and is refused; A works and releases; " +
		"the memory is free again; B acquires and works"
	s.Play = func(ctx context.Context, s Stage) error { return playEviction(ctx, s, "noeviction") }
	return s
}

// leaseForFilling is a TTL that outlasts the filling of a server by far.
const leaseForFilling = 3 * leaseForRestart

func playEviction(ctx context.Context, s Stage, policy string) error {
	ttl, servers := s.Cell().TTL, s.Servers()
	a, held, ok, err := enter(ctx, s, lastLook(s))
	if err != nil || !ok {
		return err
	}
	node := servers.Primary()
	refusal, err := servers.Fill(ctx, node, policy)
	if err != nil {
		return err
	}
	if refusal == "" {
		s.Bite("%s, policy %s, evicted the key of hold %d", node, policy, held.Hold)
		// The lock is what is tested, not the next eviction.
		if err := servers.Relieve(ctx, node); err != nil {
			return err
		}
	}
	b := s.Client(1)
	if err := b.Order(once(s, ttl/20)); err != nil {
		return err
	}
	second, err := b.To(ctx, lastLook(s))
	if err != nil {
		return err
	}
	if refusal != "" {
		s.Bite("%s, policy %s, refused to write (%s); the acquire of client 1 was answered %q", node, policy, refusal, second.Acquire)
	}
	if _, err := a.Finish(ctx); err != nil {
		return err
	}
	if _, err := b.Finish(ctx); err != nil {
		return err
	}
	if refusal != "" {
		if err := servers.Relieve(ctx, node); err != nil {
			return err
		}
	}
	_, err = tryFor(ctx, s, 2, ttl)
	return err
}
