package runner

import (
	"context"
	"errors"
	"path"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/measure/execution"
	"bakeoff/measure/tool"
	"bakeoff/provision/volume"
	"bakeoff/reach/conn"
	"bakeoff/reach/system"
	systemall "bakeoff/reach/system/all"
)

// finder prints the path of the program $1: in the directories that match the
// other arguments (the last match), or else in PATH or the administrators'
// directories. Debian's PATH has wrappers of PostgreSQL's programs, which
// should not be measured.
const finder = `PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/pkg/bin
p=$1; shift; last=
for pattern; do for d in $pattern; do [ -x "$d/$p" ] && last=$d/$p; done; done
if [ -n "$last" ]; then echo "$last"; else command -v "$p"; fi`

// findProgram finds the program and the facts of its build, once per environment: on
// an emulated machine it takes seconds, which every cell would repeat.
func (s *site) findProgram(ctx context.Context) error {
	if _, ok := s.target.Shared[s.stateKey()]; ok {
		return execution.Recall(s.target.Shared, s.stateKey(), &s.known)
	}
	if err := s.lookForProgram(ctx); err != nil {
		return err
	}
	return execution.Remember(s.target.Shared, s.stateKey(), s.known)
}

// lookForProgram is the first find in an environment.
func (s *site) lookForProgram(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, asideTime)
	defer cancel()
	d := s.tool.Doc()
	out := conn.Tail{Limit: 4096}
	exit, err := s.conn.Exec(ctx, conn.Cmd{Argv: append([]string{"sh", "-c", finder, "sh", d.Program}, d.Dirs...),
		Stdout: &out})
	if err != nil {
		return err
	}
	s.known.Program = strings.TrimSpace(string(out.Bytes()))
	if !exit.OK() || !strings.HasPrefix(s.known.Program, "/") {
		return s.absentError(ctx)
	}
	// Some programs write to HOME before they print a version.
	if _, err := conn.Output(ctx, s.conn, "mkdir", "-p", s.dir); err != nil {
		return err
	}
	said := conn.Tail{Limit: 64 << 10}
	if _, err := s.conn.Exec(ctx, conn.Cmd{Argv: append([]string{s.known.Program}, d.VersionArgs...),
		Env: []string{"LC_ALL=C", "HOME=" + s.dir}, Stdout: &said, Stderr: &said}); err != nil {
		return err
	}
	if s.known.Facts, err = s.tool.Version(said.Bytes()); err != nil {
		return fault.Wrap(fault.Subject, "version of "+s.known.Program, err)
	}
	if sum := s.programSum(ctx); sum != "" {
		s.known.Facts["sha256"] = sum
	}
	return nil
}

// programSum returns the program's SHA-256, computed by a program of the environment;
// "" if there is none.
func (s *site) programSum(ctx context.Context) string {
	for _, argv := range [][]string{{"sha256sum", s.known.Program}, {"sha256", "-q", s.known.Program},
		{"digest", "-a", "sha256", s.known.Program}} {
		if out, err := conn.Output(ctx, s.conn, argv...); err == nil {
			if sum, _, _ := strings.Cut(strings.TrimSpace(string(out)), " "); len(sum) == 64 {
				return sum
			}
		}
	}
	return ""
}

// absentError says that the program is missing, and how to install it.
func (s *site) absentError(ctx context.Context) error {
	d := s.tool.Doc()
	err := fault.New(fault.Subject, "%s is not installed", d.Program)
	id, asked := system.Identify(ctx, s.conn)
	if asked != nil {
		return errors.Join(err, fault.Op("identify the system", asked))
	}
	there, ok := system.Of(systemall.Systems(), id)
	if !ok {
		return fault.WithFix(err, "bakeoff does not know the package manager of this system ("+id.Kernel+" "+
			id.Release["ID"]+"); see `bakeoff list systems`")
	}
	name := there.Doc().Name
	if packages := d.Packages[name]; len(packages) > 0 {
		return fault.WithFix(err, "install it there: "+there.Doc().InstallLine(packages...))
	}
	return fault.WithFix(err, "bakeoff knows no package of it for "+name)
}

// placeTool creates the tool's directories and returns the tool's Place, without
// its server.
func (s *site) placeTool(ctx context.Context) (tool.Place, error) {
	at := tool.Place{Dir: s.dir, Data: s.dir}
	info := s.target.Subject.Info()
	if m := info.Limits.Memory; m != nil {
		at.MemoryBytes = int64(*m)
	}
	if v := s.tool.Doc().Volume; v != "" {
		root, err := s.target.Volume(s.params.Text(v))
		if err != nil {
			return at, err
		}
		at.Data = path.Join(root, "bakeoff-"+s.tool.Doc().Name)
		at.Properties = s.target.Properties[s.params.Text(v)]
		at.HostCaches = strings.HasPrefix(info.HostCache[s.params.Text(v)], volume.CacheUsed)
	}
	if _, err := conn.Output(ctx, s.conn, "mkdir", "-p", at.Dir, at.Data); err != nil {
		return at, err
	}
	at.FileSystem = s.fileSystem(ctx, at.Data)
	if uid, err := conn.Output(ctx, s.conn, "id", "-u"); err == nil {
		at.UID = strings.TrimSpace(string(uid))
	}
	if x, ok := s.tool.(tool.Prober); ok {
		if argv := x.Probe(s.params, at); len(argv) > 0 {
			exit, err := s.conn.Exec(ctx, conn.Cmd{Argv: argv})
			if err != nil {
				return at, err
			}
			at.Probed = exit.OK()
		}
	}
	return at, nil
}

// fileSystem returns the type of the file system of dir; "" if df does not
// report it.
func (s *site) fileSystem(ctx context.Context, dir string) string {
	out, err := conn.Output(ctx, s.conn, "df", "-PT", dir)
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if fields := strings.Fields(lines[len(lines)-1]); err == nil && len(lines) == 2 && len(fields) >= 2 {
		return fields[1]
	}
	return ""
}
