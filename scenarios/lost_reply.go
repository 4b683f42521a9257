package scenarios

import (
	"context"
	"fmt"
	"time"

	"lockstress/history"
	"lockstress/worker"
)

// lostReply: a server grants the lock, and the client never hears of it.
func lostReply() Scenario {
	return Scenario{
		Name:    "lost_reply",
		Summary: "a server executes the acquire, its reply is lost and the connection breaks",
		Timeline: "C takes the lock and gives it back; A asks, and is granted the lock by the servers, but the reply is swallowed and the " +
			"connection reset; A does what its lock does then; B tries, then C again",
		Faulty:   true,
		Extra:    true,
		Proxied:  true,
		Topology: plain,
		Skip:     noLock,
		Play:     playLostReply,
	}
}

// lostReplyRetry is the same with a Redis client that repeats commands by itself, as
// most do unless told otherwise.
func lostReplyRetry() Scenario {
	s := lostReply()
	s.Name = "lost_reply/retry"
	s.Summary = "the same with a Redis client that repeats what failed: it is told that the lock is taken, by itself"
	s.ClientRetries = 3 // go-redis' default
	return s
}

func playLostReply(ctx context.Context, s Stage) error {
	if ok, err := warmUp(ctx, s); err != nil || !ok {
		return err
	}
	drop, err := s.DropReply(ctx, Traffic{Client: 0, Commands: taking(s), What: "the reply to the acquire of client 0"})
	if err != nil {
		return err
	}
	a := s.Client(0)
	if err := a.Order(once(s, 0)); err != nil {
		return err
	}
	meeting, cancel := context.WithTimeout(ctx, meetingTime)
	defer cancel()
	if err := drop.Wait(meeting, 1); err != nil {
		if ctx.Err() == nil {
			s.Miss("no reply to client 0's acquire was seen on the wire")
			_, err = a.Finish(ctx)
		}
		return err
	}
	lost := time.Now()
	stop, err := a.Finish(ctx)
	if err != nil {
		return err
	}
	if err := drop.Disarm(ctx); err != nil {
		return err
	}
	holders, err := s.Servers().Holders(ctx)
	if err != nil {
		return err
	}
	heir, err := inherit(ctx, s, 1)
	if err != nil {
		return err
	}
	left := "its key was gone by then"
	if len(holders) > 0 {
		left = fmt.Sprintf("%v had its key all the same", holders)
	}
	s.Bite("the reply to the acquire of client 0 was lost, and its lock answered %s; %s; %s", sayAnswer(stop), left, heir.since(lost))
	return nil
}

func sayAnswer(stop worker.Stop) string {
	switch stop.Acquire {
	case worker.Ended:
		return "that it has the lock"
	case history.Busy:
		return "that somebody else has it"
	}
	return stop.Acquire
}
