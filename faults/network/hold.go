package network

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"lockstress/faults/network/gate"
)

// HoldSpec says what to keep back on a link.
type HoldSpec = gate.HoldSpec

// Held is a command or reply that is being kept back.
type Held = gate.Held

// Hold keeps back commands, or replies, of a link. Everything behind a held command on
// the same connection waits with it; other connections go on. Pushes, pub/sub messages
// and confirmations of subscriptions are not replies. Where replies cannot be matched (a
// connection of MONITOR, of a replica, or that uses CLIENT REPLY), none is held.
//
// The network's own rules apply. What a client sent before it died still arrives when
// it is let through, and so does what a server answered before it was killed; what has
// nobody to go to (the server's side ended, or the client's in the case of a reply) is
// dropped and no longer counts as held. Closing or cutting the link drops it all.
type Hold struct {
	link *Link
	path string
	what string
}

// Hold arms a hold. When it returns, no matching command (or reply) passes any more, on
// connections that are open already too. The first hold that matches, in the order of
// arming, takes a command.
func (l *Link) Hold(ctx context.Context, spec HoldSpec) (*Hold, error) {
	what := strings.Join(spec.Commands, ",")
	if spec.Reply {
		what = "replies to " + what
	}
	var order gate.Order
	if err := l.ask(ctx, http.MethodPost, "/holds", spec, &order); err != nil {
		return nil, fmt.Errorf("holding %s on link %s: %w", what, l.name, err)
	}
	return &Hold{link: l, path: fmt.Sprintf("/holds/%d", order.ID), what: what}, nil
}

// Wait returns once at least n are being held at the same time.
func (h *Hold) Wait(ctx context.Context, n int) error {
	var holding gate.Holding
	if err := h.link.ask(ctx, http.MethodGet, fmt.Sprintf("%s?wait=%d", h.path, n), nil, &holding); err != nil {
		return fmt.Errorf("waiting for %d of %s to be held on link %s: %w", n, h.what, h.link.name, err)
	}
	return nil
}

// Held lists what is being held, in the order of arrival.
func (h *Hold) Held(ctx context.Context) ([]Held, error) {
	var holding gate.Holding
	if err := h.link.ask(ctx, http.MethodGet, h.path, nil, &holding); err != nil {
		return nil, fmt.Errorf("listing the held %s on link %s: %w", h.what, h.link.name, err)
	}
	return holding.Held, nil
}

// Next lets through what is held under id, or the oldest for 0, and says what it was.
// It is on its way then; what follows on its connection may be held in turn. That
// nothing is held is an error.
func (h *Hold) Next(ctx context.Context, id int64) (Held, error) {
	return h.next(ctx, fmt.Sprintf("item=%d", id))
}

// Step is Next that returns once the server has answered the command, so that two
// steps on different connections are executed in the order they were made. An answer
// that never comes (a blocking command, a dead server) ends with ctx, or with an error
// once the connection ends.
func (h *Hold) Step(ctx context.Context, id int64) (Held, error) {
	return h.next(ctx, fmt.Sprintf("item=%d&answer=1", id))
}

func (h *Hold) next(ctx context.Context, query string) (Held, error) {
	var held Held
	if err := h.link.ask(ctx, http.MethodPost, h.path+"/next?"+query, nil, &held); err != nil {
		return Held{}, fmt.Errorf("letting one of the held %s through on link %s: %w", h.what, h.link.name, err)
	}
	return held, nil
}

// Release lets everything through and disarms the hold.
func (h *Hold) Release(ctx context.Context) error {
	if err := h.link.ask(ctx, http.MethodDelete, h.path, nil, &struct{}{}); err != nil {
		return fmt.Errorf("releasing the held %s on link %s: %w", h.what, h.link.name, err)
	}
	return nil
}
