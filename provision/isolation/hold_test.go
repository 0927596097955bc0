package isolation

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"bakeoff/provision/driver"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
)

// What holds an environment outlives the context in which it was started, is
// heard to its first bytes, and is ended by release.
func TestHold(t *testing.T) {
	e := &Env{Host: local.Conn{}, Spec: driver.Spec{Label: "held"}}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	out, errs, err := e.Hold(ctx, e.Host, conn.Command("sh", "-c", "echo one; echo up >&2; exec sleep 1000"),
		func(out, errs []byte) bool {
			return len(out) > 0 && bytes.HasSuffix(errs, []byte("up\n"))
		})
	cancel()
	if err != nil || string(out) != "one\n" || string(errs) != "up\n" {
		t.Fatalf("%q, %q, %v", out, errs, err)
	}
	select {
	case <-e.held.ended:
		t.Fatal("it ended with the context of its start")
	case <-time.After(50 * time.Millisecond):
	}
	if d := string(e.Diagnose(t.Context())); !strings.Contains(d, "output of the program that holds it:\nup") {
		t.Errorf("the diagnosis does not say what it said: %s", d)
	}
	for range 2 {
		if err := e.release(t.Context()); err != nil {
			t.Error(err)
		}
	}
	<-e.held.ended
}

// One that ends by itself is told with what it said; one that never becomes
// ready is given up with the context; neither keeps more than it may.
func TestHoldFails(t *testing.T) {
	never := func([]byte, []byte) bool { return false }
	e := &Env{Host: local.Conn{}, Spec: driver.Spec{Label: "held"}}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, _, err := e.Hold(ctx, e.Host, conn.Command("sh", "-c", "echo why >&2; exit 3"), never); err == nil ||
		!strings.Contains(err.Error(), "why") {
		t.Errorf("%v", err)
	}
	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, _, err := e.Hold(short, e.Host, conn.Command("sh", "-c", "head -c 100000 /dev/zero >&2; exec sleep 1000"),
		never); err == nil {
		t.Error("it was taken for ready")
	}
	if err := e.release(ctx); err != nil {
		t.Error(err)
	}
	if _, errs := e.held.said(); len(errs) > maxSaid {
		t.Errorf("%d bytes were kept", len(errs))
	}
}
