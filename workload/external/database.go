package external

import (
	"context"
	"fmt"
	"hash/crc32"
	"path"
	"strings"
	"time"

	"bakeoff/conn"
	"bakeoff/fault"
	"bakeoff/param"
	"bakeoff/tool"
)

// databaseParams are those of the PostgreSQL that a tool is run against: what
// decides how durable a transaction is, and so how long it takes.
var databaseParams = []param.Spec{
	{Name: "fsync", Kind: param.Text, Default: "on", Enum: []string{"on", "off"}, Doc: "PostgreSQL's fsync"},
	{Name: "synchronous-commit", Kind: param.Text, Default: "on", Enum: []string{"on", "local", "off"}, Doc: "PostgreSQL's synchronous_commit"},
	{Name: "full-page-writes", Kind: param.Text, Default: "on", Enum: []string{"on", "off"}, Doc: "PostgreSQL's full_page_writes"},
	{Name: "wal-level", Kind: param.Text, Default: "replica", Enum: []string{"minimal", "replica", "logical"}, Doc: "PostgreSQL's wal_level"},
	{Name: "shared-buffers", Kind: param.Size, Default: "128MiB", Min: 1 << 20, Max: 1 << 40, Doc: "PostgreSQL's shared_buffers, whole MiB"},
	{Name: "max-connections", Kind: param.Int, Default: "100", Min: 10, Max: 10000, Doc: "PostgreSQL's max_connections"},
}

// recorded are the settings that are asked back from the server.
var recorded = []string{"server_version", "fsync", "synchronous_commit", "full_page_writes", "wal_level", "wal_sync_method", "shared_buffers", "data_checksums"}

const databaseTime = 2 * time.Minute

// database is a PostgreSQL of our own: in the volume, without a port, with a
// socket in a directory that only its user and root can enter.
type database struct {
	site *site
	bin  string // where its programs are
	dir  string // in the volume; one for each set of settings
	as   []string
	at   *tool.Place
}

// maxSocket is the room for a socket's path, in bytes (sockaddr_un).
const maxSocket = 103

func (s *site) database(at *tool.Place) (*database, error) {
	sum := crc32.ChecksumIEEE([]byte(settings(s.params, "")))
	d := &database{site: s, bin: path.Dir(s.known.Program), dir: fmt.Sprintf("%s/postgresql-%08x", at.Data, sum), at: at}
	at.Host = fmt.Sprintf("%s/pg-%08x", s.target.Subject.Info().Scratch, sum)
	at.Port, at.User = 5432, "postgres"
	// A database for each cell: cells may differ in what they fill it with.
	at.Database = fmt.Sprintf("bench%08x", crc32.ChecksumIEEE([]byte(strings.Join(s.params.Args(), "\n"))))
	if len(at.Host)+len("/.s.PGSQL.5432") > maxSocket {
		return nil, fault.New(fault.Lab, "the scratch directory %s is too long for a socket's path", at.Host)
	}
	return d, nil
}

// settings is the server's configuration; all else is as initdb leaves it.
func settings(p param.Values, socket string) string {
	var b strings.Builder
	line := func(name, value string) {
		fmt.Fprintf(&b, "%s = '%s'\n", name, strings.ReplaceAll(value, "'", "''"))
	}
	line("listen_addresses", "")
	line("unix_socket_directories", socket)
	line("port", "5432")
	line("max_connections", p.Text("max-connections"))
	line("shared_buffers", fmt.Sprintf("%dMB", max(1, p.Bytes("shared-buffers")>>20)))
	// In the IPC namespace of its own, which goes with its processes.
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

// start brings the server up; it does nothing when it is up already.
func (d *database) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, databaseTime)
	defer cancel()
	c := d.site.conn
	if _, err := conn.Output(ctx, c, "mkdir", "-p", d.dir, d.at.Host); err != nil {
		return err
	}
	if err := d.become(ctx); err != nil {
		return err
	}
	data := d.dir + "/data"
	if _, err := d.run(ctx, "pg_ctl", "status", "-D", data); err != nil {
		if err := d.create(ctx, data); err != nil {
			return err
		}
		if _, err := d.run(ctx, "pg_ctl", "start", "-w", "-t", "60", "-D", data, "-l", d.dir+"/log"); err != nil {
			return d.explain(ctx, err)
		}
	}
	if out, err := d.sql(ctx, "postgres", "SELECT 1 FROM pg_database WHERE datname = '"+d.at.Database+"'"); err != nil {
		return err
	} else if len(out) == 0 {
		if _, err := d.sql(ctx, "postgres", "CREATE DATABASE "+d.at.Database); err != nil {
			return err
		}
	}
	return d.record(ctx)
}

// create makes the cluster, unless there is one, and its configuration.
func (d *database) create(ctx context.Context, data string) error {
	if err := d.site.conn.Pull(ctx, data+"/PG_VERSION", &conn.Tail{Limit: 16}); fault.Is(err, fault.NotFound) {
		if _, err := d.run(ctx, "initdb", "-D", data, "-U", "postgres", "-A", "trust", "--no-locale", "-E", "UTF8", "--no-sync"); err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	return d.site.conn.Push(ctx, data+"/postgresql.conf", 0o644, strings.NewReader(settings(d.site.params, d.at.Host)))
}

// become finds out as whom the server can run. PostgreSQL refuses to be root.
// On a bare host its directories lie below some that only root may enter, so
// where it has to be, the server may pass them (CAP_DAC_READ_SEARCH); it still
// writes only what is its own. The shared memory of a server that is killed
// stays behind in the system, but not in an IPC namespace of its own.
func (d *database) become(ctx context.Context) error {
	c := d.site.conn
	if d.at.UID != "0" {
		return nil
	}
	user := "postgres"
	if _, err := conn.Output(ctx, c, "id", "-u", user); err != nil {
		user = "nobody"
	}
	if _, err := conn.Output(ctx, c, "chown", user, d.dir, d.at.Host); err != nil {
		return err
	}
	if _, err := conn.Output(ctx, c, "chmod", "0700", d.dir, d.at.Host); err != nil {
		return err
	}
	drop := []string{"setpriv", "--reuid=" + user, "--regid=" + d.group(ctx, user), "--clear-groups"}
	pass := append(drop[:len(drop):len(drop)], "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search")
	var last error
	for _, own := range [][]string{{"unshare", "--ipc", "--"}, nil} {
		for _, as := range [][]string{drop, pass} {
			as = append(append([]string{}, own...), append(as, "--")...)
			// Not test -w: access(2) takes no account of capabilities.
			if _, last = conn.Output(ctx, c, append(as, "touch", d.dir+"/own", d.at.Host+"/own")...); last == nil {
				d.as = as
				return nil
			}
		}
	}
	return fault.Wrap(fault.Unsupported, "no way to run PostgreSQL as "+user+", and it refuses to be root", last)
}

func (d *database) group(ctx context.Context, user string) string {
	if out, err := conn.Output(ctx, d.site.conn, "id", "-g", user); err == nil {
		return strings.TrimSpace(string(out))
	}
	return user
}

// run runs one of PostgreSQL's programs as the server's user.
func (d *database) run(ctx context.Context, program string, args ...string) ([]byte, error) {
	argv := append(append(append([]string{}, d.as...), path.Join(d.bin, program)), args...)
	out, err := conn.OutputOf(ctx, d.site.conn, conn.Cmd{Argv: argv, Dir: "/", Env: []string{"LC_ALL=C"}})
	if fault.Is(err, fault.NotFound) {
		err = fault.Wrap(fault.Subject, program+" is not there beside pgbench", err)
	}
	return out, err
}

// sql runs one statement and returns its rows.
func (d *database) sql(ctx context.Context, database, statement string) ([]byte, error) {
	return d.run(ctx, "psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", d.at.Host, "-p", fmt.Sprint(d.at.Port), "-U", d.at.User, "-d", database, "-c", statement)
}

// record asks the server what its settings are.
func (d *database) record(ctx context.Context) error {
	out, err := d.sql(ctx, d.at.Database, "SELECT name, setting FROM pg_settings WHERE name IN ('"+strings.Join(recorded, "','")+"')")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(out)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "|"); ok {
			d.site.known.Facts[name] = value
		}
	}
	if d.site.known.Facts["server_version"] == "" {
		return fault.New(fault.Lab, "the server does not tell its settings: %.200q", out)
	}
	return nil
}

// alive sees that the server answers.
func (d *database) alive(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, asideTime)
	defer cancel()
	if err := d.become(ctx); err != nil {
		return err
	}
	_, err := d.sql(ctx, d.at.Database, "CHECKPOINT")
	if err != nil {
		return fault.Wrap(fault.Subject, "the server no longer answers", err)
	}
	return nil
}

// explain adds the end of the server's log to err.
func (d *database) explain(ctx context.Context, err error) error {
	log := conn.Tail{Limit: 2048}
	if d.site.conn.Pull(ctx, d.dir+"/log", &log) == nil && len(log.Bytes()) > 0 {
		err = fmt.Errorf("%w; its log ends: %s", err, strings.TrimSpace(string(log.Bytes())))
	}
	return fault.Wrap(fault.Subject, "PostgreSQL did not start", err)
}
