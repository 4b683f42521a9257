package redlock

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"lockstress/impls/lock"
	"lockstress/impls/owned"
)

// vote is what one node made of a request.
type vote uint8

const (
	done     vote = iota + 1 // it did it
	denied                   // it answered that the key is taken, or not ours
	declined                 // it certainly did nothing, for another reason
	silent                   // it may have done it, or may yet
)

// votes of all nodes on one request.
type votes struct {
	of                             []vote // by index of node
	done, denied, declined, silent int
	err                            error // of the nodes declined or silent
}

// all asks every node at once, each for at most NodeTimeout, and waits for all. A
// grant does not return at the majority's answers: a request still on its way could
// otherwise arrive after the release, and bar its node until the TTL.
func (r *Redlock) all(ctx context.Context, ask func(context.Context, owned.Node) error) votes {
	errs := make([]error, len(r.nodes))
	var wg sync.WaitGroup
	for i, node := range r.nodes {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, NodeTimeout(r.env.TTL))
			defer cancel()
			errs[i] = ask(ctx, node)
		})
	}
	wg.Wait()
	return count(errs)
}

func count(errs []error) votes {
	v := votes{of: make([]vote, len(errs))}
	for i, err := range errs {
		switch {
		case err == nil:
			v.of[i] = done
			v.done++
		case errors.Is(err, lock.ErrBusy), errors.Is(err, lock.ErrNotHeld):
			v.of[i] = denied
			v.denied++
		case lock.Certain(err):
			v.of[i] = declined
			v.declined++
			v.err = errors.Join(v.err, fmt.Errorf("node %d: %w", i+1, err))
		default:
			v.of[i] = silent
			v.silent++
			v.err = errors.Join(v.err, fmt.Errorf("node %d: %w", i+1, err))
		}
	}
	return v
}

// String is for error messages. What the nodes' errors wrap is not passed on: one
// node's certain refusal says nothing of the whole.
func (v votes) String() string {
	s := fmt.Sprintf("of %d nodes %d did it, %d said no, %d declined, %d did not answer", len(v.of), v.done, v.denied, v.declined, v.silent)
	if v.err != nil {
		s += ": " + v.err.Error()
	}
	return s
}
