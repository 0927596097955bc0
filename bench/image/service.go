package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"bakeoff/base/fault"
	"bakeoff/lab/hosts"
	"bakeoff/measure/webroot"
	"bakeoff/provision/service"
	"bakeoff/provision/service/build"
)

// goalAgent is the largest RAM disk of the service agent, in bytes.
const goalAgent = 8 << 20

// services builds the shipped services below services/ in the working folder, and prints
// the sizes of agent and web, and how long rescue takes when its base is in the cache.
func services(ctx context.Context, dir string, builds int) error {
	agent, err := buildAgent(ctx, dir)
	if err != nil {
		return err
	}
	store := hosts.Controller{Getenv: os.Getenv}.Images(func(text string) { fmt.Fprintln(os.Stderr, text) })
	site := map[string][]byte{}
	for _, f := range webroot.Example().Files {
		site[f.Name] = f.Body
	}
	one := func(name string, fresh bool) (build.Result, error) {
		at := filepath.Join("services", name)
		d, err := service.Load(at, nil)
		if err != nil {
			return build.Result{}, err
		}
		return build.Build(ctx, store, d, build.Options{Dir: at, Agent: agent, Fresh: fresh,
			Materials: map[string]map[string][]byte{"example-site": site}})
	}
	for _, name := range []string{"agent", "web"} {
		r, err := one(name, false)
		if err != nil {
			return err
		}
		fmt.Printf("services: %s: RAM disk %.1f MiB, disk %.0f MiB", name, float64(r.RAM.Size)/(1<<20),
			float64(r.Disk.Size)/(1<<20))
		if name == "agent" {
			fmt.Printf("; goal for the RAM disk ≤ %d MiB", goalAgent>>20)
		}
		fmt.Println()
	}
	if _, err := one("rescue", false); err != nil { // its base is in the cache now
		return err
	}
	for i := range builds {
		start := time.Now()
		if _, err := one("rescue", true); err != nil {
			return err
		}
		fmt.Printf("services: rescue, build %d of %d from a warm cache: %.2f s\n", i+1, builds, time.Since(start).Seconds())
	}
	return nil
}

// buildAgent builds bakeoff-agent into dir and returns its path.
func buildAgent(ctx context.Context, dir string) (string, error) {
	agent := filepath.Join(dir, "bakeoff-agent")
	return agent, goBuild(ctx, agent, "bakeoff/cmd/bakeoff-agent")
}

// goBuild builds a static program.
func goBuild(ctx context.Context, program, source string) error {
	c := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", program, source)
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		return fault.New(fault.Lab, "go build: %w: %s", err, out)
	}
	return nil
}
