package zone

import (
	"testing"

	"bakeoff/base/name"
)

// A zone's UUID follows from its label, and is one.
func TestID(t *testing.T) {
	a, b := idOf("a"), idOf("b")
	if a == b || a != idOf("a") || !name.ValidUUID(a) {
		t.Errorf("%s, %s", a, b)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"state":"running","zonepath":"/zones/x"}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if s, err := parse(text); err == nil && s.State == "" {
			t.Error("a zone without a state")
		}
	})
}
