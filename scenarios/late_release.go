package scenarios

import (
	"context"
	"time"

	"lockstress/workload"
)

// lateRelease: a release is slow on its way, and arrives when the lock is another's.
func lateRelease() Scenario {
	return Scenario{
		Name:    "late_release",
		Summary: "the command that releases the lock is delayed in the network until somebody else holds it",
		Timeline: "A acquires, works and releases, but the command that deletes its key is held in the network; A's key expires; " +
			"B acquires; the command arrives; C tries to get in while B is still at it",
		Faulty:   true,
		Proxied:  true,
		Topology: plain,
		Skip:     noLock,
		Play:     playLateRelease,
	}
}

// deleting are the commands by which locks are given back.
var deleting = []string{"DEL", "UNLINK", "GETDEL", "EVAL", "EVALSHA", "HDEL"}

func playLateRelease(ctx context.Context, s Stage) error {
	ttl := s.Cell().TTL
	b, c := s.Client(1), s.Client(2)

	a, held, ok, err := enter(ctx, s, workload.BeforeRelease)
	if err != nil || !ok {
		return err
	}
	// Whatever deletes a key: a check that comes before it, as a command of its
	// own, gets through.
	release, err := s.Hold(ctx, Traffic{Client: 0, Commands: deleting, What: "the release of client 0"})
	if err != nil {
		return err
	}
	if err := a.Go(); err != nil {
		return err
	}
	caught, cancel := context.WithTimeout(ctx, meetingTime)
	defer cancel()
	if err := release.Wait(caught, 1); err != nil {
		if ctx.Err() != nil {
			return err
		}
		s.Miss("no releasing command of client 0 was seen on the wire")
		release.Release(ctx)
		_, err := a.Finish(ctx)
		return err
	}
	since := time.Now()
	if err := b.Order(once(s, 5*ttl)); err != nil {
		return err
	}
	second, entered, err := toBy(ctx, since.Add(3*ttl), b, inside(s))
	if err != nil {
		return err
	}
	got := time.Now()
	if err := release.Release(ctx); err != nil {
		return err
	}
	late := time.Since(since)
	if _, err := a.Finish(ctx); err != nil {
		return err
	}
	if entered && !second.Done() {
		s.Bite("the release of hold %d arrived %d ms late, when client 1 had hold %d", held.Hold, late.Milliseconds(), second.Hold)
	} else {
		s.Bite("the release of hold %d arrived %d ms late; nobody else had got in", held.Hold, late.Milliseconds())
	}
	return thirdTries(ctx, s, b, c, entered, got)
}
