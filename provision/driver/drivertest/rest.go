package drivertest

import (
	"bytes"
	"time"

	"bakeoff/provision/driver"
)

// rest: a frozen environment does nothing, a thawed one continues, and a frozen
// one can be closed.
func (s *runner) rest() {
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
	s.until("the heartbeat", func() bool { return size() > 2 })
	m, metered := in.(driver.Meter)
	for range 2 {
		start := time.Now()
		if err := f.Freeze(s.Context()); err != nil {
			s.Fatal(err)
		}
		freeze := time.Since(start)
		s.still(m, metered)
		start = time.Now()
		if err := f.Thaw(s.Context()); err != nil {
			s.Fatal(err)
		}
		s.Logf("freeze %v, thaw %v", freeze, time.Since(start))
		before := size()
		s.until("the next heartbeat", func() bool { return size() > before })
	}
	if err := f.Freeze(s.Context()); err != nil {
		s.Fatal(err)
	}
}

// still checks that a frozen environment uses no CPU. A running one writes its
// heartbeat to a file forty times in 200 ms. The kernel reports a group as
// frozen before its last thread has left its CPU, which may have to wait for
// others: so one reading may show usage.
func (s *runner) still(m driver.Meter, metered bool) {
	s.Helper()
	var spent []float64
	for range 10 {
		used := 0.0
		if metered {
			used = s.cpu(m)
		}
		time.Sleep(200 * time.Millisecond)
		if !metered || s.cpu(m)-used <= 100e-6 {
			return
		}
		spent = append(spent, s.cpu(m)-used)
	}
	s.Errorf("while frozen it used %v s of CPU", spent)
}

func (s *runner) cpu(m driver.Meter) float64 {
	s.Helper()
	u, err := m.Usage(s.Context())
	if err != nil || u.CPUSeconds == nil {
		s.Fatalf("usage: %+v, %v", u, err)
	}
	return *u.CPUSeconds
}
