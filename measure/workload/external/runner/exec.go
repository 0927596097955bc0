package runner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/measure/tool"
	"bakeoff/measure/workload"
	"bakeoff/measure/workload/external"
	"bakeoff/reach/conn"
	"bakeoff/reach/wire"
)

// The bounds of what is read, in bytes.
const (
	maxExec = 8 << 20  // a wire.ExecResult of two streams of 1 MiB
	maxFile = 64 << 20 // a kept file
	maxSaid = 64 << 10
)

// asideTime bounds small auxiliary commands.
const asideTime = 30 * time.Second

var errTooLong = errors.New("the deadline of bakeoff-agent passed")

// exec runs a command through the agent, which puts counters around it, and
// returns the agent's result and its standard error.
func (s *site) exec(ctx context.Context, cmd tool.Command) (stdout, stderr []byte, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.limit+time.Minute, errTooLong)
	defer cancel()
	argv := slices.Clone(cmd.Argv)
	if argv[0] == s.program {
		argv[0] = s.known.Program
	}
	out, said := &conn.Head{Limit: maxExec}, &conn.Head{Limit: maxSaid}
	exit, err := s.conn.Exec(ctx, conn.Cmd{
		Argv: append([]string{s.agent, "exec", "--json", "--dir", s.dir, "--timeout", s.limit.String(), "--"}, argv...),
		// A fixed locale, because output depends on it, and a private
		// home directory for programs that write to it.
		Env:    append([]string{"LC_ALL=C", "HOME=" + s.dir}, cmd.Env...),
		Stdout: out, Stderr: said,
	})
	switch {
	case errors.Is(context.Cause(ctx), errTooLong):
		err = fault.New(fault.Subject, "no result from bakeoff-agent one minute after its timeout of %v", s.limit)
	case fault.Is(err, fault.NotFound):
		err = fault.Wrap(fault.Lab, "", fmt.Errorf("bakeoff-agent is missing: %w", err))
	case err != nil:
	case exit.Code == wire.ExitNotFound, exit.Code == wire.ExitSubject:
		err = fault.New(fault.Subject, "%s cannot be started%s", argv[0], external.Quoted(said.Bytes()))
	case exit.Signal != "" || exit.Code > 128:
		err = fault.New(fault.Subject, "bakeoff-agent was killed by %s%s", exit, external.Quoted(said.Bytes()))
	case !exit.OK():
		err = fault.New(fault.Lab, "bakeoff-agent failed with %s%s", exit, external.Quoted(said.Bytes()))
	case out.Cut:
		err = fault.New(fault.Lab, "bakeoff-agent's output is longer than %d bytes", maxExec)
	}
	return out.Bytes(), said.Bytes(), err
}

// setup creates the tool's directory, removes old copies of the files to keep,
// and writes those that the command needs.
func (s *site) setup(ctx context.Context, cmd tool.Command) error {
	files := conn.FilesOf(s.conn)
	if _, err := conn.Output(ctx, s.conn, "mkdir", "-p", s.dir); err != nil {
		return err
	}
	for _, pattern := range cmd.Keep {
		names, err := match(ctx, files, s.dir, pattern)
		if err != nil {
			return err
		}
		for _, name := range names {
			if _, err := conn.Output(ctx, s.conn, "rm", "-f", "--", path.Join(s.dir, name)); err != nil {
				return err
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(cmd.Files)) {
		if err := s.conn.Push(ctx, path.Join(s.dir, name), 0o644, strings.NewReader(cmd.Files[name])); err != nil {
			return err
		}
	}
	return nil
}

// match returns the files in dir that match a name of Command.Keep.
func match(ctx context.Context, files conn.Files, dir, pattern string) ([]string, error) {
	names, err := files.ReadDir(ctx, dir)
	if err != nil {
		return nil, err
	}
	prefix, any := strings.CutSuffix(pattern, "*")
	names = slices.DeleteFunc(names, func(n string) bool {
		return strings.Contains(n, "/") || n != pattern && !(any && strings.HasPrefix(n, prefix))
	})
	slices.Sort(names)
	return names, nil
}

// keep reads the files of a trial.
func (s *site) keep(ctx context.Context, cmd tool.Command, raw workload.Raw) error {
	for blob, pattern := range cmd.Keep {
		names, err := match(ctx, conn.FilesOf(s.conn), s.dir, pattern)
		if err != nil {
			return err
		}
		b := &conn.Head{Limit: maxFile}
		for _, name := range names {
			if err := s.conn.Pull(ctx, path.Join(s.dir, name), b); err != nil {
				return err
			}
		}
		if b.Cut {
			return fault.New(fault.Subject, "%s is longer than %d bytes", pattern, maxFile)
		}
		if len(names) > 0 {
			raw[blob] = b.Bytes()
		}
	}
	return nil
}
