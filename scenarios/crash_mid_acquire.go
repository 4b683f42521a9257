package scenarios

import (
	"context"
	"time"

	"lockstress/impls"
)

// crashMidAcquire: a client dies when a server has executed the first command of its
// acquire and nothing more.
func crashMidAcquire() Scenario {
	return Scenario{
		Name:    "crash_mid_acquire",
		Summary: "a client is killed between the command that takes the lock and whatever is to follow it",
		Timeline: "C takes the lock and gives it back; A's key is set; the command that gives it an expiry is held in the network (of one-command acquires, the reply); " +
			"A's process is killed, and what it had sent never arrives; B tries, then C again",
		Faulty:   true,
		Extra:    true,
		Proxied:  true,
		Topology: plain,
		Skip: func(c Cell) string {
			if c.Lock.Topology == impls.Quorum {
				return "its requests to the servers are over within a twentieth of the TTL: there is no middle to be held in; see crash_holder"
			}
			return noLock(c)
		},
		Play: playCrashMidAcquire,
	}
}

func playCrashMidAcquire(ctx context.Context, s Stage) error {
	if ok, err := warmUp(ctx, s); err != nil || !ok {
		return err
	}
	a := s.Client(0)
	expiry, err := s.Hold(ctx, Traffic{Client: 0, Commands: []string{"EXPIRE", "PEXPIRE"}, What: "the expiry of client 0's key"})
	if err != nil {
		return err
	}
	what, caught := "the command that was to let it expire", expiry
	if s.Cell().Lock.Name != "setnx-expire" {
		reply, err := s.Hold(ctx, Traffic{Client: 0, Commands: taking(s), Replies: true, What: "the reply to the acquire of client 0"})
		if err != nil {
			return err
		}
		what, caught = "the reply", reply
	}
	if err := a.Order(once(s, 0)); err != nil {
		return err
	}
	meeting, cancel := context.WithTimeout(ctx, meetingTime)
	defer cancel()
	if err := caught.Wait(meeting, 1); err != nil {
		if ctx.Err() == nil {
			s.Miss("nothing of client 0's acquire was seen on the wire")
			_, err = a.Finish(ctx)
		}
		return err
	}
	// What is held is never let go: the network has lost it.
	if err := s.Crash(ctx, 0); err != nil {
		return err
	}
	died := time.Now()
	holders, err := s.Servers().Holders(ctx)
	if err != nil {
		return err
	}
	if len(holders) == 0 {
		s.Miss("no server has the key of client 0 when it is dead")
		return nil
	}
	heir, err := inherit(ctx, s, 1)
	if err != nil {
		return err
	}
	s.Bite("client 0 died when %v had executed its command and %s was still on its way; %s", holders, what, heir.since(died))
	return nil
}
