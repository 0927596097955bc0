package all

import (
	"os"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/provision/image/source"
)

func TestKinds(t *testing.T) {
	doc, err := os.ReadFile("../../../../docs/special/images.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range All() {
		kind := s.Doc().Kind
		if !strings.Contains(string(doc), "\n| `"+kind+"` |") {
			t.Errorf("docs/special/images.md has no row for the source %s", kind)
		}
		if got, err := Get(kind); err != nil || got != s {
			t.Errorf("%s: %v, %v", kind, got, err)
		}
	}
	if _, err := Get("imgpai"); !fault.Is(err, fault.Invalid) || !strings.Contains(fault.Fix(err), `"imgapi"`) {
		t.Errorf("%v", err)
	}
	for _, e := range source.Defaults {
		s, err := Get(e.Kind)
		if err == nil {
			err = s.Check(e.Address)
		}
		if err != nil {
			t.Errorf("%s: %v", e.Name, err)
		}
	}
}
