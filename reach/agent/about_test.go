package agent

import (
	"encoding/json"
	"runtime/debug"
	"strings"
	"testing"
)

// An agent tells what it can, and a controller of the same build finds nothing
// different in it.
func TestAboutIsWhatTheControllerKnows(t *testing.T) {
	out, errs, code := run(t, "about")
	if code != ExitOK {
		t.Fatalf("code %d: %s", code, errs)
	}
	var a About
	if err := json.Unmarshal([]byte(out), &a); err != nil {
		t.Fatal(err)
	}
	if in := Self(testLoops).Differs(a); in != "" {
		t.Errorf("it differs from itself: %s", in)
	}
	if in := Self(testLoops[1:]).Differs(a); !strings.Contains(in, `knows "good n=3"`) {
		t.Errorf("a controller without one of its workloads says %q", in)
	}
}

func TestAnotherBuildDiffers(t *testing.T) {
	self := About{Protocol: 2, Build: "0123456789ab", Commands: []string{"about", "work"}, Loops: []string{"cpu time=1s"}}
	for _, tt := range []struct {
		what   string
		change func(a *About)
		want   string // "" none
	}{
		{"the same", func(*About) {}, ""},
		{"a build that does not know its commit", func(a *About) { a.Build = "" }, ""},
		{"another commit", func(a *About) { a.Build = "ba9876543210" }, "it was built from ba9876543210, and this program from 0123456789ab"},
		{"changed sources", func(a *About) { a.Build += "-modified" }, "it was built from 0123456789ab-modified"},
		{"an older protocol", func(a *About) { a.Protocol = 1 }, "it speaks protocol 1, and this program 2"},
		{"a command less", func(a *About) { a.Commands = a.Commands[:1] }, `it does not know "work"`},
		{"a parameter more", func(a *About) { a.Loops = []string{"cpu time=1s cores=1"} }, `it does not know "cpu time=1s"`},
		{"a workload more", func(a *About) { a.Loops = append([]string{"files"}, a.Loops...) }, `it knows "files", and this program does not`},
	} {
		other := self
		tt.change(&other)
		if got := self.Differs(other); !strings.HasPrefix(got, tt.want) || (got == "") != (tt.want == "") {
			t.Errorf("%s: %q, want %q", tt.what, got, tt.want)
		}
	}
}

func TestBuildOf(t *testing.T) {
	setting := func(kv ...string) *debug.BuildInfo {
		info := &debug.BuildInfo{}
		for i := 0; i < len(kv); i += 2 {
			info.Settings = append(info.Settings, debug.BuildSetting{Key: kv[i], Value: kv[i+1]})
		}
		return info
	}
	const revision = "0123456789abcdef0123456789abcdef01234567"
	for _, tt := range []struct {
		info *debug.BuildInfo
		want string
	}{
		{setting(), ""},
		{setting("vcs.modified", "true"), ""},
		{setting("vcs.revision", revision, "vcs.modified", "false"), "0123456789ab"},
		{setting("vcs.modified", "true", "vcs.revision", revision), "0123456789ab-modified"},
		{setting("vcs.revision", "77"), "77"},
	} {
		if got := BuildOf(tt.info); got != tt.want {
			t.Errorf("%v: %q, want %q", tt.info.Settings, got, tt.want)
		}
	}
}
