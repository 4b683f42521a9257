package scenarios

import (
	"context"
	"time"
)

// expiryMidOp: the key expires in the middle of the work.
func expiryMidOp() Scenario {
	return Scenario{
		Name:    "expiry_midop",
		Summary: "the work under the lock takes longer than the lock's TTL",
		Timeline: "A acquires and reads; its work (a slow payment call) takes longer than T; B acquires once A's key has expired, and reads; " +
			"A writes and releases; C tries to get in while B is still at it; B writes and releases",
		Faulty:   true,
		Topology: plain,
		Skip:     noLock,
		Play:     playExpiryMidOp,
	}
}

func playExpiryMidOp(ctx context.Context, s Stage) error {
	ttl := s.Cell().TTL
	b, c := s.Client(1), s.Client(2)

	a, held, ok, err := enter(ctx, s, inside(s))
	if err != nil || !ok {
		return err
	}
	since := time.Now() // not before A's acquire returned

	if err := b.Order(once(s, 5*ttl)); err != nil {
		return err
	}
	// A's work lasts until B has got in: B then has most of a fresh T left for what
	// follows. It lasts T at least, and no more than 3 T, for locks that keep B out.
	second, entered, err := toBy(ctx, since.Add(3*ttl), b, inside(s))
	if err != nil {
		return err
	}
	got := time.Now()
	if err := wait(ctx, since.Add(ttl)); err != nil {
		return err
	}
	worked := time.Since(since)
	if _, err := a.Finish(ctx); err != nil {
		return err
	}
	if entered && !second.Done() {
		s.Bite("client 0 worked for %d ms under hold %d, which the lock gives for %d ms, and client 1 got hold %d meanwhile",
			worked.Milliseconds(), held.Hold, ttl.Milliseconds(), second.Hold)
	} else {
		s.Bite("client 0 worked for %d ms under hold %d, which the lock gives for %d ms; nobody else got in",
			worked.Milliseconds(), held.Hold, ttl.Milliseconds())
	}
	return thirdTries(ctx, s, b, c, entered, got)
}

// thirdTries lets C try to get in while B is inside, and then both finish. If B got in
// while A was at it, at about the time got, C must try before B's time is up too.
func thirdTries(ctx context.Context, s Stage, b, c Client, entered bool, got time.Time) error {
	ttl := s.Cell().TTL
	if _, err := b.To(ctx, inside(s)); err != nil {
		return err
	}
	// One short try: it must be over well before B's own lease is.
	if err := c.Order(once(s, ttl/10)); err != nil {
		return err
	}
	if _, err := c.To(ctx, inside(s)); err != nil {
		return err
	}
	if late := time.Since(got); entered && late > ttl*3/4 {
		s.Miss("the machine was too slow: client 2 had tried %d ms after client 1 got in, for %d ms at most", late.Milliseconds(), ttl.Milliseconds())
	}
	if _, err := b.Finish(ctx); err != nil {
		return err
	}
	_, err := c.Finish(ctx)
	return err
}
