package drivertest

import (
	"bytes"
	"os"
	"strings"
	"time"

	"bakeoff/driver"
	"bakeoff/fault"
)

// rest: frozen it does nothing, thawed it goes on, and it can be closed in
// its sleep.
func (s *laboratory) rest() {
	spec := s.spec("rest")
	in := s.create(spec)
	f, ok := in.(driver.Freezer)
	if !ok {
		s.Skip("the technology cannot be frozen")
	}
	program := in.Info().Agent
	beat := in.Info().Scratch + "/beat"
	s.exec(in, "sh", "-c", `"$0" subject beat "$1" >/dev/null 2>&1 &`, program, beat)
	size := func() int {
		var b bytes.Buffer
		in.Pull(s.Context(), beat, &b)
		return b.Len()
	}
	s.until("the heart to beat", func() bool { return size() > 2 })
	m, metered := in.(driver.Meter)
	for range 2 {
		start := time.Now()
		if err := f.Freeze(s.Context()); err != nil {
			s.Fatal(err)
		}
		freeze := time.Since(start)
		used := 0.0
		if metered {
			used = s.cpu(m)
		}
		time.Sleep(200 * time.Millisecond)
		// Forty beats, and each writes to a file: a living process would have
		// used more. The kernel calls a group frozen some microseconds before
		// the last of it has left its CPU.
		if metered && s.cpu(m)-used > 100e-6 {
			s.Errorf("frozen, it used %v s of CPU", s.cpu(m)-used)
		}
		start = time.Now()
		if err := f.Thaw(s.Context()); err != nil {
			s.Fatal(err)
		}
		s.Logf("freeze %v, thaw %v", freeze, time.Since(start))
		before := size()
		s.until("the heart to beat again", func() bool { return size() > before })
	}
	if err := f.Freeze(s.Context()); err != nil {
		s.Fatal(err)
	}
}

func (s *laboratory) cpu(m driver.Meter) float64 {
	s.Helper()
	u, err := m.Usage(s.Context())
	if err != nil || u.CPUSeconds == nil {
		s.Fatalf("usage: %+v, %v", u, err)
	}
	return *u.CPUSeconds
}

// tuning that the technology cannot have is refused, and leaves nothing.
func (s *laboratory) tuning() {
	if s.drv.Doc().Kernel {
		s.Skip("a kernel of its own takes any setting")
	}
	spec := s.spec("tuning")
	spec.Tuning = map[string]string{"vm.swappiness": "1"}
	if in, err := s.drv.Create(s.Context(), s.host, spec); err == nil {
		in.Close(s.Context())
		s.Error("a setting of the host's kernel was accepted")
	}
	s.nothing(spec)
	spec = s.spec("tuned")
	spec.Tuning = map[string]string{"net.ipv4.ip_default_ttl": "77"}
	in, err := s.drv.Create(s.Context(), s.host, spec)
	if fault.Is(err, fault.Unsupported) {
		s.nothing(spec)
		s.Skipf("the technology has no settings of its own: %v", err)
	}
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { s.close(in, spec) })
	if exit, out := s.exec(in, "cat", "/proc/sys/net/ipv4/ip_default_ttl"); !exit.OK() || strings.TrimSpace(out) != "77" {
		s.Errorf("the setting inside is %q", out)
	}
	if b, _ := os.ReadFile("/proc/sys/net/ipv4/ip_default_ttl"); strings.TrimSpace(string(b)) == "77" {
		s.Error("the host's own setting was changed")
	}
}
