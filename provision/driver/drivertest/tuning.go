package drivertest

import (
	"os"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/provision/driver"
)

// tunables are settings of Linux with other values than the kernel's defaults:
// of a network namespace, of a UTS namespace, and of the whole kernel.
var tunables = map[string]string{"net.ipv4.ip_default_ttl": "77", "kernel.domainname": "tuned.example",
	"vm.swappiness": "1"}

// tuning: Create refuses settings that the Doc does not support and leaves
// nothing; supported settings take effect inside and nowhere else.
func (s *runner) tuning() {
	takes := s.drv.Doc().Tuning
	spec := s.spec("tuned")
	spec.Tuning = map[string]string{}
	for name, value := range tunables {
		if takes.Takes(name) == nil {
			spec.Tuning[name] = value
		} else {
			s.untuned(name, value)
		}
	}
	if len(spec.Tuning) == 0 {
		s.Logf("supports %s", takes)
		return
	}
	before := map[string]string{}
	for name := range spec.Tuning {
		before[name] = hosts(name)
	}
	in, err := s.drv.Create(s.Context(), s.host, spec)
	if err != nil {
		s.Fatalf("Create fails with settings that its Doc supports: %v: %v", spec.Tuning, err)
	}
	s.Cleanup(func() { s.close(in, spec) })
	for name, value := range spec.Tuning {
		if exit, out := s.exec(in, "cat", settingFile(name)); !exit.OK() || strings.TrimSpace(out) != value {
			s.Errorf("%s inside is %q, %v", name, out, exit)
		}
		if now := hosts(name); now != before[name] {
			s.Errorf("%s of the host was %q and is %q", name, before[name], now)
		}
	}
}

// untuned checks that a setting which the Doc does not support is refused.
func (s *runner) untuned(name, value string) {
	spec := s.spec("untuned")
	spec.Tuning = map[string]string{name: value}
	in, err := s.drv.Create(s.Context(), s.host, spec)
	switch {
	case err == nil:
		s.Errorf("Create accepts %s, which its Doc does not support", name)
		s.close(in, spec)
	case !fault.Is(err, fault.Unsupported) || fault.Fix(err) == "":
		s.Errorf("%s: got %v of kind %v, want kind unsupported and a fix", name, err, fault.Of(err))
	}
	s.nothing(spec)
	if v, ok := s.drv.(driver.Validator); ok && v.Validate(spec) == nil {
		s.Errorf("Validate accepts %s, which Create refuses", name)
	}
}

func settingFile(name string) string { return "/proc/sys/" + strings.ReplaceAll(name, ".", "/") }

// hosts is the value of a setting on this machine.
func hosts(name string) string {
	b, _ := os.ReadFile(settingFile(name))
	return strings.TrimSpace(string(b))
}
