package unit

import (
	"strings"
	"testing"
)

// Sizes are written as people and other programs write them, in any case.
func TestSizesInAnyCase(t *testing.T) {
	for text, want := range map[string]Bytes{"4k": 4096, "4K": 4096, "4KiB": 4096, "4kiB": 4096,
		"1g": GiB, "1G": GiB, "2m": 2 * MiB,
		"1kB": 1000, "1KB": 1000, "512B": 512, "1tiB": TiB, "1.5gB": 1.5e9} {
		if got, err := ParseBytes(text); err != nil || got != want {
			t.Errorf("%s: %d, %v, want %d", text, got, err, want)
		}
	}
}

// A small b stands for bits.
func TestBitsAreNoBytes(t *testing.T) {
	for _, text := range []string{"512Mb", "4kb", "8b", "4kib"} {
		if got, err := ParseBytes(text); err == nil {
			t.Errorf("%s is %d bytes", text, got)
		}
	}
}

func TestShares(t *testing.T) {
	for text, want := range map[string]float64{"5%": 0.05, "0.05": 0.05, "2.5 %": 0.025, "0": 0} {
		if got, err := ParseShare(text); err != nil || got != want {
			t.Errorf("%s: %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "%", "five", "NaN", "inf%"} {
		if v, err := ParseShare(text); err == nil {
			t.Errorf("%q is %v", text, v)
		}
	}
}

// A duration that is too long is not called something else.
func TestLongDurations(t *testing.T) {
	if _, err := ParseDuration("99999999h"); err == nil || !strings.Contains(err.Error(), "is longer than 290 years") {
		t.Errorf("%v", err)
	}
	if _, err := ParseDuration("9x"); err == nil || !strings.Contains(err.Error(), "is not a duration") {
		t.Errorf("%v", err)
	}
}
