package runner

import (
	"context"
	"path"
	"slices"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/measure/execution"
	"bakeoff/measure/tool"
	"bakeoff/measure/workload"
	"bakeoff/measure/workload/external"
	"bakeoff/reach/conn"
)

// maxFile bounds a kept file, in bytes.
const maxFile = 64 << 20

// asideTime bounds small auxiliary commands.
const asideTime = 30 * time.Second

// exec runs a command through the agent, which puts counters around it, and
// returns the agent's result and its standard error.
func (s *site) exec(ctx context.Context, cmd tool.Command) (stdout, stderr []byte, err error) {
	argv := slices.Clone(cmd.Argv)
	if argv[0] == s.program {
		argv[0] = s.known.Program
	}
	// A fixed locale, because output depends on it, and a private home
	// directory for programs that write to it.
	return execution.Command{Conn: s.conn, Agent: s.agent, Dir: s.dir, Limit: s.limit, Argv: argv, Name: argv[0] + " ",
		Waits: s.tool.Doc().Server == tool.Web,
		Env:   append([]string{"LC_ALL=C", "HOME=" + s.dir}, cmd.Env...), Quoted: external.Quoted}.Exec(ctx)
}

// makeFolder creates the tool's directory, removes old copies of the files to keep,
// and writes those that the command needs.
func (s *site) makeFolder(ctx context.Context, cmd tool.Command) error {
	files := conn.FilesOf(s.conn)
	if err := execution.WriteFiles(ctx, s.conn, s.dir, cmd.Files); err != nil {
		return err
	}
	for _, pattern := range cmd.Keep {
		names, err := matchFiles(ctx, files, s.dir, pattern)
		if err != nil {
			return err
		}
		for _, name := range names {
			if _, err := conn.Output(ctx, s.conn, "rm", "-f", "--", path.Join(s.dir, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// matchFiles returns the files in dir that match a name of Command.Keep.
func matchFiles(ctx context.Context, files conn.Files, dir, pattern string) ([]string, error) {
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

// keepFiles reads the files of a trial.
func (s *site) keepFiles(ctx context.Context, cmd tool.Command, raw workload.Raw) error {
	for blob, pattern := range cmd.Keep {
		names, err := matchFiles(ctx, conn.FilesOf(s.conn), s.dir, pattern)
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
