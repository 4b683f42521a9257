package network

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"lockstress/faults/network/gate"
)

// DropSpec says which replies to swallow on a link.
type DropSpec = gate.DropSpec

// Drop lets commands through and swallows their replies: the server has executed what
// the client will never hear of. A reply that has begun to pass when the drop is armed
// is not swallowed.
type Drop struct {
	link *Link
	path string
	what string
}

// DropReply arms a drop. With Reset the connection is closed behind the swallowed reply
// and the client sees its end; without, the client waits.
func (l *Link) DropReply(ctx context.Context, spec DropSpec) (*Drop, error) {
	what := strings.Join(spec.Commands, ",")
	var order gate.Order
	if err := l.ask(ctx, http.MethodPost, "/drops", spec, &order); err != nil {
		return nil, fmt.Errorf("dropping replies to %s on link %s: %w", what, l.name, err)
	}
	return &Drop{link: l, path: fmt.Sprintf("/drops/%d", order.ID), what: what}, nil
}

// Wait returns once at least n replies were swallowed.
func (d *Drop) Wait(ctx context.Context, n int) error {
	var dropped gate.Dropped
	if err := d.link.ask(ctx, http.MethodGet, fmt.Sprintf("%s?wait=%d", d.path, n), nil, &dropped); err != nil {
		return fmt.Errorf("waiting for %d dropped replies to %s on link %s: %w", n, d.what, d.link.name, err)
	}
	return nil
}

// Dropped is how many replies were swallowed so far.
func (d *Drop) Dropped(ctx context.Context) (int, error) {
	var dropped gate.Dropped
	if err := d.link.ask(ctx, http.MethodGet, d.path, nil, &dropped); err != nil {
		return 0, fmt.Errorf("counting dropped replies to %s on link %s: %w", d.what, d.link.name, err)
	}
	return dropped.Count, nil
}

// Disarm lets replies pass again.
func (d *Drop) Disarm(ctx context.Context) error {
	if err := d.link.ask(ctx, http.MethodDelete, d.path, nil, &struct{}{}); err != nil {
		return fmt.Errorf("disarming the drop of replies to %s on link %s: %w", d.what, d.link.name, err)
	}
	return nil
}
