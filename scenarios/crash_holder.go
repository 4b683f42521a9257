package scenarios

import (
	"context"
	"fmt"
	"time"

	"lockstress/worker"
)

// crashHolder: the holder dies with the lock in its hands.
func crashHolder() Scenario {
	return Scenario{
		Name:    "crash_holder",
		Summary: "the holder's process is killed while it holds the lock",
		Timeline: "A acquires and reads; its process is killed; B, who wants the lock all the while, gets it once A's key has expired – " +
			"or never, and C neither, if it does not expire",
		Faulty:   true,
		Extra:    true,
		Topology: plain,
		Skip:     noLock,
		Play:     playCrashHolder,
	}
}

func playCrashHolder(ctx context.Context, s Stage) error {
	_, held, ok, err := enter(ctx, s, lastLook(s))
	if err != nil || !ok {
		return err
	}
	if err := s.Crash(ctx, 0); err != nil {
		return err
	}
	died := time.Now()
	holders, err := s.Servers().Holders(ctx)
	if err != nil {
		return err
	}
	if len(holders) == 0 {
		s.Miss("no server has the key of hold %d any more when its client is dead", held.Hold)
		return nil
	}
	heir, err := inherit(ctx, s, 1)
	if err != nil {
		return err
	}
	s.Bite("client 0 died while %v had the key of its hold %d; %s", holders, held.Hold, heir.since(died))
	return nil
}

// heir is who got a lock that was left behind.
type heir struct {
	client int // −1: nobody
	when   time.Time
}

func (h heir) since(died time.Time) string {
	if h.client < 0 {
		return "nobody got the lock after it"
	}
	return fmt.Sprintf("client %d got the lock after %d ms", h.client, h.when.Sub(died).Milliseconds())
}

// inherit lets a client, B for one, try for twice the TTL to get a lock that was left
// behind. If it is still taken, C asks once more after that one has been gone for
// longer than a TTL, when nobody can be said to have had anything to do with the lock.
func inherit(ctx context.Context, s Stage, first int) (heir, error) {
	ttl := s.Cell().TTL
	got, err := tryFor(ctx, s, first, 2*ttl)
	if err != nil || got.client >= 0 {
		return got, err
	}
	if err := wait(ctx, time.Now().Add(ttl+settled)); err != nil {
		return got, err
	}
	return tryFor(ctx, s, 2, ttl/10)
}

// settled is how much longer than a TTL a server may take to delete an expired key
// that nobody asks for, and then some.
const settled = 300 * time.Millisecond

// tryFor lets a client try to get the lock, and do its work if it does.
func tryFor(ctx context.Context, s Stage, client int, patience time.Duration) (heir, error) {
	c := s.Client(client)
	if err := c.Order(once(s, patience)); err != nil {
		return heir{client: -1}, err
	}
	stop, err := c.To(ctx, inside(s))
	got := heir{client: client, when: time.Now()}
	if err != nil {
		return got, err
	}
	if !stop.Done() {
		stop, err = c.Finish(ctx)
	}
	if stop.Acquire != worker.Ended {
		got.client = -1
	}
	return got, err
}
