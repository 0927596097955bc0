package store

import "testing"

func TestLostTime(t *testing.T) {
	for _, tt := range []struct {
		paused, lost int64
		want         bool
	}{{7e9, 66e8, true}, {7e9, 1e6, false}, {7e9, 2e8, false}, {1e8, 9e7, false}, {0, 0, false}} {
		if got := (Clock{PausedNS: tt.paused, LostNS: tt.lost}).Lost(); got != tt.want {
			t.Errorf("%+v: %v", tt, got)
		}
	}
}
