package driver_test

import (
	"testing"

	"bakeoff/base/fault"
	"bakeoff/provision/driver"
)

func TestTuning(t *testing.T) {
	shared := driver.Tuning{Names: []string{"net.*", "kernel.domainname"}, Why: "the kernel is shared"}
	for _, tt := range []struct {
		takes driver.Tuning
		name  string
		want  string // "": taken
	}{
		{shared, "net.core.somaxconn", ""},
		{shared, "kernel.domainname", ""},
		{shared, "kernel.domainname2", "tuning kernel.domainname2: the kernel is shared; use net.*, kernel.domainname"},
		{shared, "net.ipv4/../../kernel/core_pattern",
			"tuning net.ipv4/../../kernel/core_pattern: the kernel is shared; use net.*, kernel.domainname"},
		{shared, "network", "tuning network: the kernel is shared; use net.*, kernel.domainname"},
		{driver.Tuning{Names: []string{"*"}}, "vm.swappiness", ""},
		{driver.Tuning{Why: "it is the image's"}, "net.core.somaxconn",
			"tuning net.core.somaxconn: it is the image's; remove tuning"},
	} {
		err := tt.takes.Check(map[string]string{tt.name: "1"})
		if got := errText(err); got != tt.want {
			t.Errorf("%v, %s: %q, want %q", tt.takes, tt.name, got, tt.want)
		}
		if err != nil && !fault.Is(err, fault.Unsupported) {
			t.Errorf("%v is of kind %v", err, fault.Of(err))
		}
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
