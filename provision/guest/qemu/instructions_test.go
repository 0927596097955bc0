package qemu

import (
	"reflect"
	"strings"
	"testing"

	"bakeoff/provision/driver"
)

func TestParseCounts(t *testing.T) {
	for text, want := range map[string][]driver.Count{
		"0000000000000010 userland\n00000000000000ff up\n": {{Name: "userland", At: 16}, {Name: "up", At: 255}},
		"noise\n0000000000000010 userland\n0000":           {{Name: "userland", At: 16}},
		"0000000000000010 userland":                        nil, // not a whole line
		"ffffffffffffffff x\n":                             nil,
		"10 x\n":                                           nil,
		"0000000000000010 \n":                              nil,
		"0000000000000010 a\x1bb\n":                        nil,
		"":                                                 nil,
	} {
		if got := parseCounts([]byte(text)); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}

func FuzzParseCounts(f *testing.F) {
	f.Add([]byte("0000000000000010 userland\n"))
	f.Add([]byte("0000000000000010 userland\n\x00\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		counts := parseCounts(b)
		if len(counts) > maxCounts {
			t.Errorf("%d counts", len(counts))
		}
		for _, c := range counts {
			if c.At < 0 || c.Name == "" || strings.ContainsAny(c.Name, " \n\x1b") {
				t.Errorf("%q gave %v", b, c)
			}
		}
	})
}
