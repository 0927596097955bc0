package plan

import (
	"bytes"
	"strings"
	"testing"

	"bakeoff/lab/manifest"
)

// A plan with images of a registry follows from the lab file and from what it registered
// of them.
func TestImagesOfAPlan(t *testing.T) {
	digest := "sha256:" + strings.Repeat("1", 64)
	withImage := func() *manifest.Lab {
		l := lab(t, "{}")
		l.Contenders[0].Image = "app:1"
		return l
	}
	first := withImage()
	first.Pinned = map[string]manifest.Pinned{"app:1": {Reference: "docker.io/library/app:1", Digest: digest}}
	p, text := decoded(t, first)
	for _, c := range p.Contenders {
		name, got := c.Origin()
		if c.Image == "app:1" && (name != "app:1" || got != digest) || c.Image == "" && c.Pinned != nil {
			t.Errorf("%s: %q, %q", c.Name, name, got)
		}
	}
	again := withImage()
	p.Record(again)
	q, err := Expand(again, catalogue(), 7, "v")
	if err != nil {
		t.Fatal(err)
	}
	if other, err := Encode(q); err != nil || !bytes.Equal(other, text) {
		t.Errorf("%v\n%s\n%s", err, text, other)
	}
	for _, wrong := range []manifest.Pinned{{}, {Digest: digest}, {Reference: "a", Digest: "sha256:../.."},
		{Reference: strings.Repeat("a", maxReference+1)}} {
		p.Contenders[0].Pinned = &wrong
		bad, err := Encode(p)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Decode(bad); err == nil || !strings.Contains(err.Error(), "invalid image") {
			t.Errorf("%+v: %v", wrong, err)
		}
	}
}
