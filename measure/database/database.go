// Package database runs a private PostgreSQL server in an environment, for
// workloads that need one: its data in a volume, no port, a socket in a
// directory that only its user and root can enter. Its durability settings
// decide how long a transaction takes, so they are parameters, and are read
// back from the server.
package database

import (
	"context"
	"fmt"
	"hash/crc32"
	"path"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/reach/conn"
)

// The address of the server: the port is part of the socket's name.
const (
	Port = 5432
	User = "postgres"
)

// recorded are the settings that are read back from the server.
var recorded = []string{"server_version", "fsync", "synchronous_commit", "full_page_writes", "wal_level",
	"wal_sync_method", "shared_buffers", "data_checksums"}

// The bounds of starting a server and of a check that it answers.
const (
	startTime = 2 * time.Minute
	aliveTime = 30 * time.Second
)

// maxSocket is the maximum length of a socket's path, in bytes (sockaddr_un).
const maxSocket = 103

// Server is one server. Different settings make different servers.
type Server struct {
	conn   conn.Conn
	bin    string // where its programs are
	dir    string // in the volume; one per set of settings
	socket string // directory of its socket
	uid    string // numeric user ID of bakeoff; "" on systems without one
	params param.Values
	as     []string // prefix that runs a command as the server's user
}

// New returns the server with the settings p, its programs in bin, its data
// below data and its socket below scratch. It changes nothing yet.
func New(c conn.Conn, p param.Values, bin, data, scratch, uid string) (*Server, error) {
	dir := fmt.Sprintf("%s/postgresql-%08x", data, crc32.ChecksumIEEE([]byte(settings(p, ""))))
	// Two servers with the same settings have different folders: one of pgbench, one of cms.
	s := &Server{conn: c, params: p, bin: bin, uid: uid, dir: dir,
		socket: fmt.Sprintf("%s/pg-%08x", scratch, crc32.ChecksumIEEE([]byte(dir)))}
	if len(s.socket)+len("/.s.PGSQL.5432") > maxSocket {
		return nil, fault.New(fault.Lab, "the path of the scratch directory %s is too long for a socket", s.socket)
	}
	return s, nil
}

// Socket is the directory of the server's socket; clients use it as the host
// name.
func (s *Server) Socket() string { return s.socket }

// settings is the server's configuration. Everything else is as initdb leaves
// it.
func settings(p param.Values, socket string) string {
	var b strings.Builder
	line := func(name, value string) {
		fmt.Fprintf(&b, "%s = '%s'\n", name, strings.ReplaceAll(value, "'", "''"))
	}
	line("listen_addresses", "")
	line("unix_socket_directories", socket)
	line("port", fmt.Sprint(Port))
	line("max_connections", p.Text("max-connections"))
	line("shared_buffers", fmt.Sprintf("%dMB", max(1, p.Bytes("shared-buffers")>>20)))
	// System V memory lies in the server's own IPC namespace, which ends
	// with its processes.
	line("dynamic_shared_memory_type", "sysv")
	line("fsync", p.Text("fsync"))
	line("synchronous_commit", p.Text("synchronous-commit"))
	line("full_page_writes", p.Text("full-page-writes"))
	line("wal_level", p.Text("wal-level"))
	if p.Text("wal-level") == "minimal" {
		line("max_wal_senders", "0")
	}
	line("log_timezone", "UTC")
	line("timezone", "UTC")
	return b.String()
}

// Start starts the server, unless it runs, and returns its settings as it
// reports them.
func (s *Server) Start(ctx context.Context) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	if _, err := conn.Output(ctx, s.conn, "mkdir", "-p", s.dir, s.socket); err != nil {
		return nil, err
	}
	if err := s.chooseUser(ctx); err != nil {
		return nil, err
	}
	data := s.dir + "/data"
	if _, err := s.Run(ctx, nil, s.program("pg_ctl"), "status", "-D", data); err != nil {
		if err := s.createCluster(ctx, data); err != nil {
			return nil, err
		}
		if _, err := s.Run(ctx, nil, s.program("pg_ctl"), "start", "-w", "-t", "60", "-D", data, "-l",
			s.dir+"/log"); err != nil {
			return nil, s.explain(ctx, err)
		}
	}
	return s.readSettings(ctx)
}

// createCluster makes the cluster, unless it exists, and writes its configuration.
func (s *Server) createCluster(ctx context.Context, data string) error {
	if err := s.conn.Pull(ctx, data+"/PG_VERSION", &conn.Tail{Limit: 16}); fault.Is(err, fault.NotFound) {
		if _, err := s.Run(ctx, nil, s.program("initdb"), "-D", data, "-U", User, "-A", "trust", "--no-locale", "-E",
			"UTF8", "--no-sync"); err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	return s.conn.Push(ctx, data+"/postgresql.conf", 0o644, strings.NewReader(settings(s.params, s.socket)))
}

// chooseUser decides which user runs the server: PostgreSQL refuses to run as root.
// On a bare host its directories lie below some that only root may enter, so if
// necessary the server may bypass read permissions (CAP_DAC_READ_SEARCH); it
// still writes only its own files. It runs in an IPC namespace of its own if
// possible, because the shared memory of a killed server would stay in the
// system's.
func (s *Server) chooseUser(ctx context.Context) error {
	if s.uid != "0" || s.as != nil {
		return nil
	}
	user := "postgres"
	if _, err := conn.Output(ctx, s.conn, "id", "-u", user); err != nil {
		user = "nobody"
	}
	if _, err := conn.Output(ctx, s.conn, "chown", user, s.dir, s.socket); err != nil {
		return err
	}
	if _, err := conn.Output(ctx, s.conn, "chmod", "0700", s.dir, s.socket); err != nil {
		return err
	}
	drop := []string{"setpriv", "--reuid=" + user, "--regid=" + s.groupOf(ctx, user), "--clear-groups"}
	pass := append(drop[:len(drop):len(drop)], "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search")
	var last error
	for _, own := range [][]string{{"unshare", "--ipc", "--"}, nil} {
		for _, as := range [][]string{drop, pass} {
			as = append(append([]string{}, own...), append(as, "--")...)
			// Not test -w: access(2) ignores capabilities.
			if _, last = conn.Output(ctx, s.conn, append(as, "touch", s.dir+"/own", s.socket+"/own")...); last == nil {
				s.as = as
				return nil
			}
		}
	}
	return fault.Wrap(fault.Unsupported, "PostgreSQL refuses to run as root, and bakeoff cannot run it as "+user, last)
}

func (s *Server) groupOf(ctx context.Context, user string) string {
	if out, err := conn.Output(ctx, s.conn, "id", "-g", user); err == nil {
		return strings.TrimSpace(string(out))
	}
	return user
}

func (s *Server) program(name string) string { return path.Join(s.bin, name) }

// Run runs a program as the server's user and returns its output. env is added
// to the server's address (PGHOST, PGPORT, PGUSER).
func (s *Server) Run(ctx context.Context, env []string, argv ...string) ([]byte, error) {
	if err := s.chooseUser(ctx); err != nil {
		return nil, err
	}
	way := []string{"LC_ALL=C", "PGHOST=" + s.socket, fmt.Sprintf("PGPORT=%d", Port), "PGUSER=" + User}
	out, err := conn.OutputOf(ctx, s.conn, conn.Cmd{Argv: append(s.as[:len(s.as):len(s.as)], argv...), Dir: "/",
		Env: append(way, env...)})
	if fault.Is(err, fault.NotFound) {
		err = fault.Wrap(fault.Subject, argv[0]+" is missing", err)
	}
	return out, err
}

// SQL runs one statement in a database and returns its rows.
func (s *Server) SQL(ctx context.Context, database, statement string) ([]byte, error) {
	return s.Run(ctx, nil, s.program("psql"), "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1",
		"-h", s.socket, "-p", fmt.Sprint(Port), "-U", User, "-d", database, "-c", statement)
}

// Has reports whether the database name exists.
func (s *Server) Has(ctx context.Context, name string) (bool, error) {
	out, err := s.SQL(ctx, "postgres", "SELECT 1 FROM pg_database WHERE datname = '"+strings.ReplaceAll(name, "'",
		"''")+"'")
	return len(out) > 0, err
}

// readSettings reads the settings back from the server.
func (s *Server) readSettings(ctx context.Context) (map[string]string, error) {
	out, err := s.SQL(ctx, "postgres", "SELECT name, setting FROM pg_settings WHERE name IN ('"+
		strings.Join(recorded, "','")+"')")
	if err != nil {
		return nil, err
	}
	facts := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "|"); ok {
			facts[name] = value
		}
	}
	if facts["server_version"] == "" {
		return nil, fault.New(fault.Lab, "cannot read the settings of the server: %.200q", out)
	}
	return facts, nil
}

// Alive checks that the server answers for a database, and writes dirty data to
// the disk.
func (s *Server) Alive(ctx context.Context, database string) error {
	ctx, cancel := context.WithTimeout(ctx, aliveTime)
	defer cancel()
	if _, err := s.SQL(ctx, database, "CHECKPOINT"); err != nil {
		return fault.Wrap(fault.Subject, "the server does not answer", err)
	}
	return nil
}

// explain adds the end of the server's log to err.
func (s *Server) explain(ctx context.Context, err error) error {
	log := conn.Tail{Limit: 2048}
	if s.conn.Pull(ctx, s.dir+"/log", &log) == nil && len(log.Bytes()) > 0 {
		err = fmt.Errorf("%w; the end of its log: %s", err, strings.TrimSpace(string(log.Bytes())))
	}
	return fault.Wrap(fault.Subject, "PostgreSQL did not start", err)
}
