package gate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
)

// Prefix is where [Handler]'s routes begin.
const Prefix = "/gates/"

// Version answers a question about the interface itself.
type Version struct {
	Gates int `json:"gates"` // version of the interface, 1
}

// Order answers the making of a hold or drop.
type Order struct {
	ID int64 `json:"id"`
}

// Holding answers a question about a hold.
type Holding struct {
	Held []Held `json:"held"` // in the order of arrival
}

// Dropped answers a question about a drop.
type Dropped struct {
	Count int `json:"count"` // replies swallowed whole
}

// Failure is the body of an answer that is not 2xx.
type Failure struct {
	Error string `json:"error"`
}

// Handler is the HTTP interface to the gates of this process. Requests that await
// something end when it happens or the client goes away; so the server that carries
// the handler must not limit the time of writing.
//
//	GET    /gates/                        Version
//	PUT    /gates/{gate}                  make it
//	DELETE /gates/{gate}                  let everything through, forget it
//	POST   /gates/{gate}/holds            HoldSpec → Order
//	GET    /gates/{gate}/holds/{id}       Holding; with ?wait=n once n are held
//	POST   /gates/{gate}/holds/{id}/next  let ?item=id through, without one the oldest → Held;
//	                                      of a command with ?answer=1 once it is answered
//	DELETE /gates/{gate}/holds/{id}       let everything through, disarm
//	POST   /gates/{gate}/drops            DropSpec → Order
//	GET    /gates/{gate}/drops/{id}       Dropped; with ?wait=n once n were swallowed
//	DELETE /gates/{gate}/drops/{id}       disarm
type Handler struct {
	mux  *http.ServeMux
	mu   sync.Mutex
	made map[string]bool
}

// NewHandler returns the interface; Close forgets the gates that were made through it.
func NewHandler() *Handler {
	h := &Handler{mux: http.NewServeMux(), made: map[string]bool{}}
	handle := func(pattern string, f func(r *http.Request, g *gate) (any, error)) {
		h.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			g := gates.find(r.PathValue("gate"))
			if g == nil {
				answer(w, nil, errNotFound)
				return
			}
			result, err := f(r, g)
			answer(w, result, err)
		})
	}
	h.mux.HandleFunc("GET /gates/{$}", func(w http.ResponseWriter, r *http.Request) {
		answer(w, Version{1}, nil)
	})
	h.mux.HandleFunc("PUT /gates/{gate}", func(w http.ResponseWriter, r *http.Request) {
		name := r.PathValue("gate")
		gates.get(name)
		h.mu.Lock()
		h.made[name] = true
		h.mu.Unlock()
		answer(w, struct{}{}, nil)
	})
	handle("DELETE /gates/{gate}", func(r *http.Request, g *gate) (any, error) {
		h.forget(r.PathValue("gate"))
		return struct{}{}, nil
	})
	handle("POST /gates/{gate}/holds", makeHold)
	handle("GET /gates/{gate}/holds/{id}", waitHold)
	handle("POST /gates/{gate}/holds/{id}/next", next)
	handle("DELETE /gates/{gate}/holds/{id}", func(r *http.Request, g *gate) (any, error) {
		hold, err := pick(r, g.findHold)
		if err != nil {
			return nil, err
		}
		g.release(hold)
		return struct{}{}, nil
	})
	handle("POST /gates/{gate}/drops", makeDrop)
	handle("GET /gates/{gate}/drops/{id}", waitDrop)
	handle("DELETE /gates/{gate}/drops/{id}", func(r *http.Request, g *gate) (any, error) {
		drop, err := pick(r, g.findDrop)
		if err != nil {
			return nil, err
		}
		g.disarm(drop)
		return struct{}{}, nil
	})
	return h
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.mux.ServeHTTP(w, r) }

// Close lets everything through and forgets the gates.
func (h *Handler) Close() {
	h.mu.Lock()
	var names []string
	for name := range h.made {
		names = append(names, name)
	}
	h.mu.Unlock()
	for _, name := range names {
		h.forget(name)
	}
}

func (h *Handler) forget(name string) {
	h.mu.Lock()
	delete(h.made, name)
	h.mu.Unlock()
	if g := gates.remove(name); g != nil {
		g.open()
	}
}

var (
	errNotFound = errors.New("no such gate, hold or drop: it was released, or its link closed")
	errRequest  = errors.New("bad request")
)

func makeHold(r *http.Request, g *gate) (any, error) {
	var spec HoldSpec
	if err := decode(r, &spec); err != nil {
		return nil, err
	}
	if len(spec.Commands) == 0 || spec.Max < 0 {
		return nil, fmt.Errorf("%w: a hold needs commands, and a max of 0 or more", errRequest)
	}
	return Order{g.addHold(spec).id}, nil
}

func makeDrop(r *http.Request, g *gate) (any, error) {
	var spec DropSpec
	if err := decode(r, &spec); err != nil {
		return nil, err
	}
	if len(spec.Commands) == 0 || spec.Count < 0 {
		return nil, fmt.Errorf("%w: a drop needs commands, and a count of 0 or more", errRequest)
	}
	return Order{g.addDrop(spec).id}, nil
}

func waitHold(r *http.Request, g *gate) (any, error) {
	hold, err := pick(r, g.findHold)
	if err != nil {
		return nil, err
	}
	n, err := number(r, "wait")
	if err != nil {
		return nil, err
	}
	result := Holding{Held: []Held{}}
	err = g.await(r.Context(), func() (bool, error) {
		if hold.over {
			return false, errOver
		}
		if int64(len(hold.waiting)) < n {
			return false, nil
		}
		for _, it := range hold.waiting {
			result.Held = append(result.Held, it.Held)
		}
		return true, nil
	})
	return result, err
}

func next(r *http.Request, g *gate) (any, error) {
	hold, err := pick(r, g.findHold)
	if err != nil {
		return nil, err
	}
	id, err := number(r, "item")
	if err != nil {
		return nil, err
	}
	it, err := g.next(hold, id)
	if err != nil {
		return nil, err
	}
	if it.Reply || r.FormValue("answer") == "" {
		return it.Held, nil
	}
	select {
	case <-it.done:
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	if !it.answered {
		return nil, errLost
	}
	return it.Held, nil
}

func waitDrop(r *http.Request, g *gate) (any, error) {
	drop, err := pick(r, g.findDrop)
	if err != nil {
		return nil, err
	}
	n, err := number(r, "wait")
	if err != nil {
		return nil, err
	}
	var result Dropped
	err = g.await(r.Context(), func() (bool, error) {
		if drop.over {
			return false, errOver
		}
		result.Count = drop.done
		return int64(drop.done) >= n, nil
	})
	return result, err
}

func pick[T any](r *http.Request, find func(int64) *T) (*T, error) {
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errRequest, err)
	}
	if found := find(id); found != nil {
		return found, nil
	}
	return nil, errNotFound
}

func number(r *http.Request, name string) (int64, error) {
	text := r.FormValue(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: %s: %w", errRequest, name, err)
	}
	return n, nil
}

func decode(r *http.Request, into any) error {
	if err := json.NewDecoder(r.Body).Decode(into); err != nil {
		return fmt.Errorf("%w: %w", errRequest, err)
	}
	return nil
}

func answer(w http.ResponseWriter, result any, err error) {
	status := http.StatusOK
	switch {
	case err == nil:
	case errors.Is(err, errNotFound):
		status = http.StatusNotFound
	case errors.Is(err, errRequest):
		status = http.StatusBadRequest
	case slices.Contains([]error{errOver, errNoItem, errLost}, err):
		status = http.StatusConflict
	case errors.Is(err, context.Canceled):
		return // nobody is there to be answered
	default:
		status = http.StatusInternalServerError
	}
	if err != nil {
		result = Failure{err.Error()}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(result)
}
