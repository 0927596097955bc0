package sleep

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestForWaits(t *testing.T) {
	from := time.Now()
	if err := For(t.Context(), time.Millisecond); err != nil || time.Since(from) < time.Millisecond {
		t.Errorf("after %v: %v", time.Since(from), err)
	}
}

// The test would not end before its own deadline if For ignored the context.
func TestForIsCutShort(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := For(ctx, 100*time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
