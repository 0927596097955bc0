package lxc

import (
	"context"
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
const refusal = `lxc-start x 20261122082443.940 ERROR    cgfsng - ../src/lxc/cgroups/cgfsng.c:__cgfsng_delegate_controllers:3341 - Device or resource busy - Could not enable "+cpuset +memory" controllers
lxc-start x 20261122082444.229 ERROR    apparmor - ../src/lxc/lsm/apparmor.c:apparmor_process_label_set_at:1184 - No such file or directory - Failed to write AppArmor profile "lxc-container-default-cgns" to 14
lxc-start x 20261122082444.236 ERROR    sync - ../src/lxc/sync.c:sync_wait:34 - An error occurred in another process (expected sequence number 4)
lxc-start x 20261122082444.245 ERROR    lxccontainer - ../src/lxc/lxccontainer.c:wait_on_daemonized_start:878 - Received container state "ABORTING" instead of "RUNNING"
lxc-start x 20261122082444.284 ERROR    lxc_start - ../src/lxc/tools/lxc_start.c:main:306 - The container failed to start
`

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
