package plan

import (
	"bytes"
	"strings"
	"testing"

	"bakeoff/lab/manifest"
)

// A plan with files follows from the lab file and from what it registered of them. The
// content is the factor, not the name.
func TestFilesOfAPlan(t *testing.T) {
	digest := func(c string) string { return "sha256:" + strings.Repeat(c, 64) }
	withFiles := func() *manifest.Lab {
		l := lab(t, "{}")
		l.Files = []manifest.File{{From: "data", To: "/opt/data"}}
		l.Contenders[0].Files = []manifest.File{{From: "v1", To: "/opt/server", Mode: "0755"}}
		l.Contenders[1].Files = []manifest.File{{From: "v2", To: "/opt/server", Mode: "0755"}}
		return l
	}
	first := withFiles()
	first.Packed = map[manifest.FileKey]manifest.Packed{{From: "data"}: {Digest: digest("d"), Size: 9},
		{From: "v1", Mode: "0755"}: {Digest: digest("1")}, {From: "v2", Mode: "0755"}: {Digest: digest("2")}}
	p, text := decoded(t, first)
	again := withFiles()
	p.Record(again)
	q, err := Expand(again, catalogue(), 7, "v")
	if err != nil {
		t.Fatal(err)
	}
	if other, err := Encode(q); err != nil || !bytes.Equal(other, text) {
		t.Errorf("%v\n%s\n%s", err, text, other)
	}
	name, cell := p.Contenders[1].Name, p.Cells[0].Name
	found := false
	for _, f := range p.Factors(name, cell) {
		found = found || f.Name == "files./opt/server" && f.Contender == "v2 sha256:222222222222"
		if f.Name == "files./opt/data" {
			t.Errorf("%+v is a factor", f)
		}
	}
	if !found {
		t.Errorf("%+v", p.Factors(name, cell))
	}
	p.Contenders[1].Files[1].Digest = p.Contenders[0].Files[1].Digest
	for _, f := range p.Factors(name, cell) {
		if strings.HasPrefix(f.Name, filesPrefix) {
			t.Errorf("%+v has the same content and is a factor", f)
		}
	}
	for _, wrong := range []manifest.File{{To: "/opt/x", Digest: "sha256:../../x"}, {To: "../x", Digest: digest("1")}} {
		p.Contenders[1].Files = []manifest.File{wrong}
		if text, err = Encode(p); err != nil {
			t.Fatal(err)
		}
		if _, err := Decode(text); err == nil {
			t.Errorf("%+v was taken", wrong)
		}
	}
}

// decoded is the plan of a lab, encoded and decoded, and its text.
func decoded(t *testing.T, l *manifest.Lab) (*Plan, []byte) {
	t.Helper()
	p, err := Expand(l, catalogue(), 7, "v")
	if err != nil {
		t.Fatal(err)
	}
	text, err := Encode(p)
	if err == nil {
		p, err = Decode(text)
	}
	if err != nil {
		t.Fatal(err)
	}
	return p, text
}
