package agent

import (
	"encoding/json"
	"runtime/debug"
	"strings"
	"testing"

	"bakeoff/reach/wire"
)

// An agent tells what it can, and a controller of the same build finds nothing
// different in it.
func TestAboutIsWhatTheControllerKnows(t *testing.T) {
	out, errs, code := run(t, "about")
	if code != wire.ExitOK {
		t.Fatalf("code %d: %s", code, errs)
	}
	var a wire.About
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
