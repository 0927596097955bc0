package drivertest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"bakeoff/base/unit"
	"bakeoff/provision/driver"
	"bakeoff/provision/volume"
	"bakeoff/reach/conn"
)

// cancelled: a creation that is canceled at any moment leaves nothing, and a program
// that runs ends with its environment, not by itself.
func (s *runner) cancelled() {
	spec := s.spec("cancel-0")
	start := time.Now()
	in := s.create(spec)
	whole := time.Since(start)
	ended := s.sleeper(in)
	start = time.Now()
	s.close(in, spec)
	whole += time.Since(start)
	s.until("the end of a program of a closed environment", func() bool {
		select {
		case exit := <-ended:
			if exit.OK() {
				s.Errorf("Close did not end a program, which ended by itself after %v", sleep)
			}
			return true
		default:
			return false
		}
	})
	for i := range 6 {
		spec := s.spec(fmt.Sprintf("cancel-%d", i+1))
		if slices.Contains(s.o.Backings, "tmpfs") {
			spec.Volumes = s.volume("tmpfs")
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

// sleep is how long the program of sleeper takes: much longer than Close on a busy
// machine.
const sleep = time.Minute

// sleeper starts a program inside that does nothing and then ends well, and returns when
// it runs. The channel gets how it ended, without an exit code if only the connection did.
func (s *runner) sleeper(in driver.Instance) <-chan conn.Exit {
	s.Helper()
	out, said := io.Pipe()
	ended := make(chan conn.Exit, 1)
	go func() {
		exit, err := in.Exec(context.WithoutCancel(s.Context()), conn.Cmd{Stdout: said,
			Argv: []string{"sh", "-c", fmt.Sprintf("echo started; exec sleep %d", int(sleep.Seconds()))}})
		if err != nil {
			exit = conn.Exit{Code: -1}
		}
		ended <- exit
		said.CloseWithError(err)
	}()
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "started\n" {
		s.Fatalf("a program does not start: %q, %v", line, err)
	}
	return ended
}

// volume is a small volume for an environment that is interrupted; none if the
// guest of a fake would have to mount it.
func (s *runner) volume(backing string) []volume.Volume {
	if s.o.NoVolume {
		return nil
	}
	return []volume.Volume{{Path: "/v", Backing: backing, Size: unit.MiB}}
}

// crashedController: after its controller is killed, Reap finds everything by
// the label and removes it, and then finds nothing.
func (s *runner) crashedController() {
	spec := s.spec("crash")
	backing := volume.Dir
	if slices.Contains(s.o.Backings, volume.Tmpfs) {
		backing = volume.Tmpfs
	}
	spec.Volumes = s.volume(backing)
	if s.o.Engine {
		gateway := netip.MustParsePrefix("198.18.251.1/24")
		place, _ := s.experiment(s.Context(), gateway)
		spec.Network, spec.Ports = on(place, gateway.Addr(), 2), []uint16{8080}
	}
	v := s.victim(crash{Spec: spec, Dir: s.dir})
	v.reached("up")
	v.kill()
	seen, err := s.drv.Reap(s.Context(), s.host, driver.Leftover{Label: spec.Label, Dir: spec.Dir}, true)
	if err != nil || len(seen) == 0 {
		s.Errorf("a dry run finds %q, %v; the controller said: %s", seen, err, v.said.Bytes())
	}
	if found := s.reap(spec); len(found) == 0 {
		s.Error("Reap found nothing")
	}
}

// mortal is the host of a fake on which a controller can be killed before its
// n-th command from now, never during the fake's own work.
type mortal interface {
	Calls() [][]string
	KillAt(n int)
}

// crashedCreating: the same holds at every moment of a creation. On a real
// machine a command of a killed controller continues and takes effect at some
// time, so the moment cannot be chosen there.
func (s *runner) crashedCreating() {
	m, ok := s.host.(mortal)
	if !ok {
		s.Skip("only a fake can choose the moment of a kill")
	}
	before, found := len(m.Calls()), 0
	spec := s.spec("born")
	in := s.create(spec)
	calls := len(m.Calls()) - before
	s.close(in, spec)
	for _, n := range []int{calls / 3, 2 * calls / 3, calls - 1} {
		spec := s.spec(fmt.Sprintf("born-%d", n))
		v := s.victim(crash{Spec: spec, Dir: s.dir, Killed: true, Before: n})
		v.ended()
		found += len(s.reap(spec))
	}
	if found == 0 {
		s.Errorf("killed at every third of %d commands, but nothing had to be removed", calls)
	}
}

// reap removes what a killed controller left, and checks that it did.
func (s *runner) reap(spec driver.Spec) []string {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), s.o.Timeout)
	defer cancel()
	found, err := s.drv.Reap(ctx, s.host, driver.Leftover{Label: spec.Label, Dir: spec.Dir}, false)
	if err != nil {
		s.Errorf("found %q, %v", found, err)
	}
	s.Logf("found and removed: %q", found)
	s.nothing(spec)
	return found
}

// victim is a controller that will be killed.
type victim struct {
	*runner
	dir  string
	cmd  *exec.Cmd
	said bytes.Buffer
}

// victim starts a controller that creates what c says.
func (s *runner) victim(c crash) *victim {
	s.Helper()
	if s.o.Victim == nil {
		s.Fatal("there is no controller to kill: Options.Victim is nil")
	}
	v := &victim{runner: s, dir: filepath.Join(s.dir, "crash-"+c.Spec.Name), cmd: s.o.Victim()}
	text, err := json.Marshal(c)
	if err == nil {
		err = os.Mkdir(v.dir, 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(v.dir, "spec.json"), text, 0o644)
	}
	if err != nil {
		s.Fatal(err)
	}
	v.cmd.Env = append(append(os.Environ(), v.cmd.Env...), crashed+"="+v.dir)
	v.cmd.Stdout, v.cmd.Stderr = &v.said, &v.said
	v.cmd.WaitDelay = time.Second
	if err := v.cmd.Start(); err != nil {
		s.Fatal(err)
	}
	return v
}

// reached waits until the controller reports that it has reached its state.
func (v *victim) reached(what string) {
	v.Helper()
	v.within(v.o.Timeout+patience, "the controller to be "+what, func() bool {
		_, err := os.Stat(filepath.Join(v.dir, what))
		return err == nil
	})
}

func (v *victim) kill() {
	v.cmd.Process.Kill()
	v.cmd.Wait()
}

// ended waits for a controller that kills itself.
func (v *victim) ended() {
	v.Helper()
	late := time.AfterFunc(v.o.Timeout, func() { v.cmd.Process.Kill() })
	v.cmd.Wait()
	if !late.Stop() {
		v.Errorf("the controller was not killed where it was to be; it said: %s", v.said.Bytes())
	}
	if v.cmd.ProcessState.Exited() {
		v.Errorf("the controller was not killed, it ended: %v; it said: %s", v.cmd.ProcessState, v.said.Bytes())
	}
}

// crash is the input of the victim.
type crash struct {
	Spec driver.Spec
	Dir  string
	// Killed tells that it is killed on a fake, before the command numbered
	// Before, or after its last one if there are fewer. The number of commands
	// depends on what else is on the host.
	Killed bool
	Before int
}

// crash creates an environment with a running program and waits for its end.
func (s *runner) crash(dir string) {
	text, err := os.ReadFile(filepath.Join(dir, "spec.json"))
	var c crash
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err != nil {
		s.Fatal(err)
	}
	s.dir, s.agent = c.Dir, c.Spec.Agent
	if c.Killed {
		s.host.(mortal).KillAt(c.Before)
	}
	in, err := s.drv.Create(s.Context(), s.host, c.Spec)
	if err != nil {
		s.Fatal(err)
	}
	if c.Killed {
		if self, err := os.FindProcess(os.Getpid()); err == nil {
			self.Kill()
		}
		select {} // the signal comes
	}
	program := in.Info().Agent
	s.exec(in, "sh", "-c", `"$0" subject beat "$1" >/dev/null 2>&1 &`, program, in.Info().Scratch+"/beat")
	if err := os.WriteFile(filepath.Join(dir, "up"), nil, 0o644); err != nil {
		s.Fatal(err)
	}
	time.Sleep(3 * time.Minute)
}
