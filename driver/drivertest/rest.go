package drivertest

import (
	"bytes"
	"time"

	"bakeoff/driver"
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
