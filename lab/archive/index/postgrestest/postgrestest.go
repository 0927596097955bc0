// Package postgrestest starts a PostgreSQL of its own for tests and for programs that
// measure bakeoff: in a folder, reached by a Unix socket, as a user without privileges.
package postgrestest

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"bakeoff/base/fault"
)

// Server is a PostgreSQL on this machine.
type Server struct {
	Place string // postgres://…, of an empty database

	dir string
	cmd *exec.Cmd
}

// programs is where Debian has the programs of the server.
const programs = "/usr/lib/postgresql/*/bin"

// Find returns the folder of the server's programs; "" if there is none.
func Find() string {
	found, _ := filepath.Glob(filepath.Join(programs, "initdb")) // the pattern is right
	if len(found) == 0 {
		return ""
	}
	return filepath.Dir(found[len(found)-1])
}

// Test starts a server, which ends with the test. The test is skipped with -short or if
// there is no PostgreSQL.
func Test(t testing.TB) *Server {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a PostgreSQL: not with -short")
	}
	if Find() == "" {
		t.Skip("needs PostgreSQL: apt-get install postgresql")
	}
	s, err := Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Start starts a server in a folder of its own, which Stop removes.
func Start(ctx context.Context) (*Server, error) {
	// The path of a socket has at most 107 bytes.
	dir, err := os.MkdirTemp("/tmp", "pg")
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir}
	if err := s.start(ctx); err != nil {
		return nil, fmt.Errorf("%w; %v", err, s.Stop())
	}
	return s, nil
}

func (s *Server) start(ctx context.Context) error {
	as, name, err := account(s.dir)
	if err != nil {
		return err
	}
	data := filepath.Join(s.dir, "data")
	command := func(program string, args ...string) *exec.Cmd {
		cmd := exec.Command(filepath.Join(Find(), program), args...)
		cmd.Dir, cmd.SysProcAttr = s.dir, &syscall.SysProcAttr{Credential: as}
		cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "TZ=UTC")
		return cmd
	}
	if out, err := command("initdb", "-D", data, "-A", "trust", "-E", "UTF8", "-N").CombinedOutput(); err != nil {
		return fault.New(fault.Lab, "initdb: %w: %s", err, out)
	}
	s.cmd = command("postgres", "-D", data, "-k", s.dir, "-c", "listen_addresses=")
	var said bytes.Buffer
	s.cmd.Stderr = &said
	if err := s.cmd.Start(); err != nil {
		s.cmd = nil
		return err
	}
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		err := command("psql", "-h", s.dir, "-d", "postgres", "-qc", "CREATE DATABASE bakeoff").Run()
		if err == nil {
			break
		}
		if time.Now().After(end) || ctx.Err() != nil {
			return fault.New(fault.Lab, "PostgreSQL does not answer: %w: %s", err, said.String())
		}
	}
	at := url.URL{Scheme: "postgres", User: url.User(name), Path: "/bakeoff",
		RawQuery: url.Values{"host": {s.dir}, "sslmode": {"disable"}}.Encode()}
	s.Place = at.String()
	return nil
}

// account is the user that the server runs as: root may not, and gives the folder to the
// user postgres.
func account(dir string) (*syscall.Credential, string, error) {
	if os.Getuid() != 0 {
		u, err := user.Current()
		if err != nil {
			return nil, "", err
		}
		return nil, u.Username, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, "", err
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return nil, "", err
	}
	gid, err := strconv.Atoi(u.Gid)
	if err != nil {
		return nil, "", err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, "postgres", os.Chown(dir, uid, gid)
}

// Stop ends the server and removes its folder.
func (s *Server) Stop() error {
	if s.cmd != nil {
		_ = s.cmd.Process.Signal(syscall.SIGQUIT) // at once, and its children too
		_ = s.cmd.Wait()                          // it was ended
		s.cmd = nil
	}
	return os.RemoveAll(s.dir)
}
