package lxc

import (
	"context"
	_ "embed"
	"slices"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/reach/conn/local"
)

// kernel is a host whose kernel says these things of itself.
type kernel struct {
	local.Conn
	files map[string]string
}

func (k kernel) ReadFile(_ context.Context, path string) ([]byte, error) {
	text, ok := k.files[path]
	if !ok {
		return nil, fault.New(fault.NotFound, "%s", path)
	}
	return []byte(text), nil
}

func TestAppArmor(t *testing.T) {
	unconfined := []string{"lxc.apparmor.profile = unconfined"}
	for _, test := range []struct {
		files map[string]string
		fact  string
		lines []string
	}{
		{nil, "not in this kernel", nil},
		{map[string]string{aaEnabled: "N\n"}, "not in this kernel", nil},
		{map[string]string{aaEnabled: "Y\n"}, "unconfined: ", unconfined}, // securityfs is not mounted
		{map[string]string{aaEnabled: "Y\n", aaProfiles: "lxc-container-default (enforce)\n"}, "unconfined: ", unconfined},
		{map[string]string{aaEnabled: "Y\n",
			aaProfiles: "lxc-container-default-cgns (enforce)\nlxc-container-default (enforce)\n"},
			"lxc-container-default-cgns (enforce)", nil},
	} {
		fact, lines, err := apparmor(t.Context(), kernel{files: test.files})
		if err != nil || !strings.HasPrefix(fact, test.fact) || !slices.Equal(lines, test.lines) {
			t.Errorf("%v: %q, %q, %v", test.files, fact, lines, err)
		}
	}
}

// What LXC 5.0.2 wrote when the profile was not loaded.
//
//go:embed testdata/refusal.log
var refusal string

func TestCauses(t *testing.T) {
	got := string(causes([]byte(refusal)))
	if strings.Count(got, "\n") != 2 || !strings.Contains(got, "AppArmor profile") ||
		strings.Contains(got, "lxc_start.c") {
		t.Errorf("%s", got)
	}
	_, last, _ := strings.Cut(refusal, "lxccontainer")
	last = "lxc-start x 1 ERROR    lxccontainer" + last
	if got := string(causes([]byte(last))); got != last {
		t.Errorf("what there is when that is all: %q", got)
	}
	if got := causes([]byte("\n\x00 no log\n")); len(got) == 0 {
		t.Error("a line of another shape is lost")
	}
}
