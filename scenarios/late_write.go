package scenarios

import (
	"context"
	"time"

	"lockstress/worker"
)

// lateWrite: what the holder wrote in time arrives when the lock is another's.
func lateWrite() Scenario {
	return Scenario{
		Name:    "late_write",
		Summary: "the holder's write is delayed in the network until somebody else has had the lock",
		Timeline: "A acquires, reads and writes, but the write is held in the network; A's key expires; B acquires, reads, writes and releases; " +
			"A's write lands",
		Faulty:          true,
		Extra:           true,
		ProxiedResource: true,
		Topology:        plain,
		Skip: func(c Cell) string {
			if c.Workload.Op == "" {
				return "the workload writes to no resource"
			}
			return noLock(c)
		},
		Play: playLateWrite,
	}
}

func playLateWrite(ctx context.Context, s Stage) error {
	ttl := s.Cell().TTL
	b := s.Client(1)
	a, held, ok, err := enter(ctx, s, lastLook(s))
	if err != nil || !ok {
		return err
	}
	write, err := s.Hold(ctx, Traffic{Client: 0, Resource: true, Commands: []string{"SET", "EVAL", "EVALSHA"}, What: "the write of client 0"})
	if err != nil {
		return err
	}
	if err := a.Go(); err != nil {
		return err
	}
	meeting, cancel := context.WithTimeout(ctx, meetingTime)
	defer cancel()
	if err := write.Wait(meeting, 1); err != nil {
		if ctx.Err() != nil {
			return err
		}
		s.Miss("no write of client 0 was seen on the wire")
		write.Release(ctx)
		_, err := a.Finish(ctx)
		return err
	}
	sent := time.Now()
	if err := b.Order(once(s, 5*ttl)); err != nil {
		return err
	}
	second, entered, err := toBy(ctx, sent.Add(4*ttl), b)
	if err != nil {
		return err
	}
	if err := wait(ctx, sent.Add(ttl)); err != nil {
		return err
	}
	late := time.Since(sent)
	if err := write.Release(ctx); err != nil {
		return err
	}
	if _, err := a.Finish(ctx); err != nil {
		return err
	}
	if entered && second.Acquire == worker.Ended {
		s.Bite("the write under hold %d arrived %d ms late, when client 1 had had hold %d", held.Hold, late.Milliseconds(), second.Hold)
	} else {
		s.Bite("the write under hold %d arrived %d ms late; nobody else had got in", held.Hold, late.Milliseconds())
	}
	_, err = b.Finish(ctx)
	return err
}
