package image

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/lazy"
	"bakeoff/base/lists"
	"bakeoff/base/safetext"
	"bakeoff/reach/conn"
)

type distribution struct {
	kernel map[string]string // by GOARCH
	extra  []string          // arguments of the builder
	// keyring verifies its packages. apt trusts that of its own distribution only, and
	// mmdebstrap finds others only where gpg is installed.
	keyring string
	// trust says how to get that file.
	trust string
}

var distributions = map[string]distribution{
	"debian": {kernel: map[string]string{"amd64": "linux-image-cloud-amd64", "arm64": "linux-image-cloud-arm64"},
		keyring: "/usr/share/keyrings/debian-archive-keyring.gpg", trust: "apt-get install debian-archive-keyring"},
	"ubuntu": {
		kernel: map[string]string{"amd64": "linux-image-kvm", "arm64": "linux-image-virtual"},
		extra:  []string{"--components=main,universe"}, keyring: "/usr/share/keyrings/ubuntu-archive-keyring.gpg",
		trust: "get that file from Ubuntu's package ubuntu-keyring, or use an image of a registry, " +
			"such as docker.io/library/ubuntu:24.04",
	},
}

// mmdebstrap runs the builder in namespaces of its own for mounts and processes.
// If bakeoff is killed, the kernel kills every process of the builder and removes
// what it mounted. The processes inherit a lock on the lease in the partial
// directory, and keep their temporary files in that directory, too.
func (s *Store) mmdebstrap(ctx context.Context, ref, target string, args []string) error {
	distro, suite, _ := strings.Cut(ref, ":")
	// Not --quiet, which would hide why apt-get failed.
	dir := filepath.Dir(target)
	argv := append([]string{"flock", "--no-fork", filepath.Join(dir, lease),
		"unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "mmdebstrap", "--mode=root"}, args...)
	of := distributions[distro]
	argv = append(argv, of.extra...)
	if exists(of.keyring) {
		argv = append(argv, "--keyring="+of.keyring)
	}
	argv = append(argv, suite, target)
	if s.Mirror != "" {
		argv = append(argv, s.Mirror)
	}
	var log bytes.Buffer
	exit, err := s.Host.Exec(ctx, conn.Cmd{Argv: argv, Stdout: &log, Stderr: &log,
		Env: []string{"TMPDIR=" + filepath.Join(dir, scratch)}})
	if fault.Is(err, fault.NotFound) || err == nil && exit.Code == 127 { // what unshare says of a missing program
		return &fault.Error{Kind: fault.Unsupported, Err: errors.New("mmdebstrap is not installed"),
			Fix: "apt-get install mmdebstrap"}
	}
	if err != nil {
		return err
	}
	if !exit.OK() {
		why, fix := complaint(log.Bytes()), "check that the mirror is reachable and the disk is not full"
		if unknown := unknownPackages(log.Bytes()); len(unknown) > 0 {
			return fault.WithFix(fault.New(fault.Invalid, "%s has no package %s", ref, strings.Join(unknown, ", ")),
				"correct the name, or use an image of a release that has it")
		}
		if !exists(of.keyring) && strings.Contains(why, "is not signed") {
			return fault.WithFix(fault.New(fault.Unsupported, "mmdebstrap cannot verify the packages of %s without %s",
				distro, of.keyring), of.trust)
		}
		if strings.Contains(why, "does not have a Release file") {
			fix = fmt.Sprintf("check that the mirror is reachable and has the suite %q", suite)
		}
		return fault.WithFix(fault.New(fault.Lab, "mmdebstrap: %v: %s", exit, why), fix)
	}
	return nil
}

// noPackage are apt-get's messages about a package that the distribution lacks.
var noPackage = lazy.Compile(`(?m)^E: (?:Unable to locate package ([a-z0-9+.-]+)|` +
	`Package '?([a-z0-9+.-]+)'? has no installation candidate)\r?$`)

// unknownPackages returns the packages that a builder's log says do not exist, each
// once, in order.
func unknownPackages(log []byte) []string {
	out := lists.Map(noPackage.FindAllSubmatch(log, -1), func(m [][]byte) string { return string(m[1]) + string(m[2]) })
	slices.Sort(out)
	return slices.Compact(out)
}

// complaint is the reason in a builder's log: its error lines, or else its end.
func complaint(log []byte) string {
	var errs [][]byte
	for line := range bytes.Lines(log) {
		if bytes.HasPrefix(line, []byte("E: ")) && !bytes.HasPrefix(line, []byte("E: mmdebstrap failed to run")) {
			errs = append(errs, line)
		}
	}
	if len(errs) == 0 {
		return lastBytes(log, 600)
	}
	return lastBytes(bytes.Join(errs, nil), 600)
}

// lastBytes returns the last n bytes of b as one line.
func lastBytes(b []byte, n int) string {
	b = bytes.TrimSpace(b)
	if len(b) > n {
		b = append([]byte("…"), b[len(b)-n:]...)
	}
	return safetext.Line(strings.Join(strings.Fields(string(b)), " "))
}
