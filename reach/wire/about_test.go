package wire

import (
	"strings"
	"testing"
)

func TestAnotherBuildDiffers(t *testing.T) {
	self := About{Protocol: 2, Build: "0123456789ab", Commands: []string{"about", "work"}, Loops: []string{"cpu time=1s"}}
	for _, tt := range []struct {
		what   string
		change func(a *About)
		want   string // "" none
	}{
		{"the same", func(*About) {}, ""},
		{"a build that does not know its commit", func(a *About) { a.Build = "" }, ""},
		{"another commit", func(a *About) { a.Build = "ba9876543210" },
			"it was built from ba9876543210, and this program from 0123456789ab"},
		{"changed sources", func(a *About) { a.Build += "-modified" }, "it was built from 0123456789ab-modified"},
		{"an older protocol", func(a *About) { a.Protocol = 1 }, "it speaks protocol 1, and this program 2"},
		{"a command less", func(a *About) { a.Commands = a.Commands[:1] }, `it does not know "work"`},
		{"a parameter more", func(a *About) { a.Loops = []string{"cpu time=1s cores=1"} }, `it does not know "cpu time=1s"`},
		{"a workload more", func(a *About) { a.Loops = append([]string{"files"}, a.Loops...) },
			`it knows "files", and this program does not`},
	} {
		other := self
		tt.change(&other)
		if got := self.Differs(other); !strings.HasPrefix(got, tt.want) || (got == "") != (tt.want == "") {
			t.Errorf("%s: %q, want %q", tt.what, got, tt.want)
		}
	}
}
