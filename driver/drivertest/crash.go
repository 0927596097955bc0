package drivertest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"bakeoff/driver"
	"bakeoff/unit"
)

// cancelled: a creation that is broken off at any moment leaves nothing.
func (s *laboratory) cancelled() {
	spec := s.spec("cancel-0")
	start := time.Now()
	s.close(s.create(spec), spec)
	whole := time.Since(start)
	for i := range 6 {
		spec := s.spec(fmt.Sprintf("cancel-%d", i+1))
		spec.Volumes = []driver.Volume{{Path: "/v", Backing: "tmpfs", Size: unit.MiB}}
		if !slices.Contains(s.drv.Doc().Backings, "tmpfs") {
			spec.Volumes = nil
		}
		ctx, cancel := context.WithTimeout(s.Context(), whole*time.Duration(i)/6)
		in, err := s.drv.Create(ctx, s.host, spec)
		cancel()
		if err == nil {
			s.close(in, spec)
			continue
		}
		s.nothing(spec)
	}
}

// crashedController: after a kill of whoever made it, everything is found by
// its label, removed, and then nothing is found.
func (s *laboratory) crashedController() {
	dir := filepath.Join(s.dir, "crash")
	if err := os.Mkdir(dir, 0o755); err != nil {
		s.Fatal(err)
	}
	spec := s.spec("crash")
	spec.Volumes = []driver.Volume{{Path: "/v", Backing: s.drv.Doc().Backings[len(s.drv.Doc().Backings)-1], Size: unit.MiB}}
	text, err := json.Marshal(crash{spec, s.dir})
	if err != nil {
		s.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "spec.json"), text, 0o644); err != nil {
		s.Fatal(err)
	}
	victim := s.o.Victim()
	victim.Env = append(append(os.Environ(), victim.Env...), crashed+"="+dir)
	var said bytes.Buffer
	victim.Stdout, victim.Stderr = &said, &said
	victim.WaitDelay = time.Second
	if err := victim.Start(); err != nil {
		s.Fatal(err)
	}
	s.until("the controller to make its environment", func() bool {
		_, err := os.Stat(filepath.Join(dir, "up"))
		return err == nil
	})
	victim.Process.Kill()
	victim.Wait()
	left := driver.Leftover{Label: spec.Label, Dir: spec.Dir}
	ctx, cancel := context.WithTimeout(s.Context(), s.o.Timeout)
	defer cancel()
	seen, err := s.drv.Reap(ctx, s.host, left, true)
	if err != nil || len(seen) == 0 {
		s.Errorf("a dry run finds %q, %v; the controller said: %s", seen, err, said.Bytes())
	}
	found, err := s.drv.Reap(ctx, s.host, left, false)
	if err != nil || len(found) == 0 {
		s.Errorf("found %q, %v", found, err)
	}
	s.Logf("found and removed: %q", found)
	s.nothing(spec)
}

// crash is what the victim is told.
type crash struct {
	Spec driver.Spec
	Dir  string
}

// crash makes an environment with something running in it and waits for its end.
func (s *laboratory) crash(dir string) {
	text, err := os.ReadFile(filepath.Join(dir, "spec.json"))
	var c crash
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err != nil {
		s.Fatal(err)
	}
	s.dir, s.agent = c.Dir, c.Spec.Agent
	in, err := s.drv.Create(s.Context(), s.host, c.Spec)
	if err != nil {
		s.Fatal(err)
	}
	program := in.Info().Agent
	s.exec(in, "sh", "-c", `"$0" subject beat "$1" >/dev/null 2>&1 &`, program, in.Info().Scratch+"/beat")
	if err := os.WriteFile(filepath.Join(dir, "up"), nil, 0o644); err != nil {
		s.Fatal(err)
	}
	time.Sleep(time.Minute)
}
