package sysctl

import (
	"bytes"
	"errors"
	"syscall"
	"testing"
)

// The kernels behave as NetBSD 10.99.12 does.
func TestSettingsOfUnknownLength(t *testing.T) {
	long := bytes.Repeat([]byte("0x0 744661714 ENTER main\n"), 10_000)
	counters := append(bytes.Repeat([]byte{7}, 599), 0)
	reads := 0
	tslog := func(text []byte) func([]byte) (int, error) {
		needed := 0
		return func(room []byte) (int, error) {
			if len(room) < needed {
				return needed, syscall.ENOMEM
			}
			if room == nil {
				needed = len(text) * 9 / 10 // the log grows before it is read
				return needed, nil
			}
			reads++
			copy(room, text)
			return len(room), nil
		}
	}
	capped := func(text []byte) func([]byte) (int, error) {
		return func(room []byte) (int, error) { return copy(room, text), nil }
	}
	for name, tt := range map[string]struct {
		get  func([]byte) (int, error)
		want []byte
	}{
		"vm.uvmexp2":             {capped(counters), counters},
		"longer than any":        {capped(long), long},
		"debug.tslog":            {tslog(long), long},
		"debug.tslog, and short": {tslog(long[:250]), long[:250]},
		"empty":                  {capped(nil), nil},
	} {
		for range 2 {
			reads = 0
			got, err := wholeSetting(tt.get)
			text := bytes.TrimRight(got, "\x00")
			if want := bytes.TrimRight(tt.want, "\x00"); err != nil || !bytes.Equal(text, want) || reads > 1 {
				t.Errorf("%s: %d bytes after %d reads, %v; want %d", name, len(text), reads, err, len(want))
			}
		}
	}
	for _, refusal := range []error{syscall.EPERM, syscall.ENOMEM} {
		got, err := wholeSetting(func([]byte) (int, error) { return 0, refusal })
		if got != nil || !errors.Is(err, refusal) {
			t.Errorf("%v: %q, %v", refusal, got, err)
		}
	}
}
