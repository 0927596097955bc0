package runner

import (
	"context"
	"fmt"
	"hash/crc32"
	"maps"
	"net/netip"
	"path"
	"slices"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/measure/database"
	"bakeoff/measure/execution"
	"bakeoff/measure/tool"
	"bakeoff/measure/workload/http/server"
	"bakeoff/reach/conn"
)

const (
	// live is the name of the database in the packaged configuration of the
	// application.
	live = "davical"
	// owner is the role that owns the database.
	owner = "davical_dba"
	// install is how to install what an environment needs.
	install = "install it there: apt-get install davical nginx php-fpm php-pgsql postgresql"
	// stateKey is where known is kept between calls.
	stateKey = "cms"
)

// The bounds of single steps.
const (
	seedTime    = 5 * time.Minute
	restoreMost = time.Minute
	asideTime   = 30 * time.Second
)

// The range of ports, beyond that of the workload http.
const (
	firstPort = 8500
	ports     = 400
)

// known is what Prepare found and trials need.
type known struct {
	Found found             `json:"found"`
	UID   string            `json:"uid"` // of the user that runs bakeoff
	Facts map[string]string `json:"facts"`
	Pages map[string]body   `json:"pages"` // by path
}

// hasChecked reports whether all of these pages were checked.
func (k known) hasChecked(asked []page) bool {
	return !slices.ContainsFunc(asked, func(p page) bool {
		_, ok := k.Pages[p.path]
		return !ok
	})
}

// body identifies a page as it was checked.
type body struct {
	Length int    `json:"length"`
	SHA256 string `json:"sha256"`
}

// found has the paths of programs in the environment.
type found struct {
	Bin string `json:"bin"` // PostgreSQL's programs
	FPM string `json:"fpm"` // PHP's FastCGI manager
	App string `json:"app"` // the application
}

// site is the application in an environment.
type site struct {
	target execution.Target
	params param.Values
	addr   netip.AddrPort
	dir    string // of PHP and the web server
	key    string // of all parameters of the server
	db     *database.Server
	known  known
}

// newSite finds what the application needs; it starts nothing.
func newSite(ctx context.Context, t execution.Target, p param.Values) (*site, error) {
	s, err := placeSite(t, p)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, asideTime)
	defer cancel()
	if s.known.Found, err = findPrograms(ctx, t.Subject); err != nil {
		return nil, err
	}
	uid, err := conn.Output(ctx, t.Subject, "id", "-u")
	if err != nil {
		return nil, err
	}
	s.known.UID = strings.TrimSpace(string(uid))
	s.known.Facts, s.known.Pages = map[string]string{}, map[string]body{}
	return s, s.connect()
}

// recallSite returns the site that Prepare remembered.
func recallSite(t execution.Target, p param.Values) (*site, error) {
	s, err := placeSite(t, p)
	if err != nil {
		return nil, err
	}
	return s, s.recallState(t.State, stateKey)
}

// sharedSite returns the site that another cell of the same environment has started
// with the same parameters, if any.
func sharedSite(t execution.Target, p param.Values) (s *site, up bool, err error) {
	if s, err = placeSite(t, p); err != nil {
		return nil, false, err
	}
	if _, up = t.Shared[s.sharedKey()]; up {
		err = s.recallState(t.Shared, s.sharedKey())
	}
	return s, up, err
}

func (s *site) sharedKey() string { return stateKey + " " + s.key }

func (s *site) recallState(state map[string]string, key string) error {
	if err := execution.Recall(state, key, &s.known); err != nil {
		return err
	}
	return s.connect()
}

// placeSite decides paths and port from the parameters of the server.
func placeSite(t execution.Target, p param.Values) (*site, error) {
	switch {
	case t.Subject == nil:
		return nil, fault.New(fault.Lab, "no environment")
	case t.Peer == nil || t.PeerAgent == "" || t.PeerDir == "":
		return nil, fault.New(fault.Lab, "the trial has no place to run the load generator")
	case !t.Addr.IsValid():
		return nil, fault.WithFix(fault.New(fault.Unsupported, "the environment has no address for the load "+
			"generator"), "give it a network: bakeoff list drivers DRIVER shows the options")
	}
	scratch := strings.TrimRight(t.Subject.Info().Scratch, "/")
	if !strings.HasPrefix(scratch, "/") || strings.ContainsAny(scratch, " \t\n;\"'{}\\$#=") {
		return nil, fault.New(fault.Lab,
			"the path of the scratch directory, %q, cannot be used in a server's configuration", scratch)
	}
	sum := serverSum(p)
	s := &site{target: t, params: p, key: fmt.Sprintf("%08x", sum)}
	s.dir = scratch + "/cms-" + s.key
	s.addr = netip.AddrPortFrom(t.Addr.Unmap(), port(sum)+t.Ports)
	return s, nil
}

// serverSum identifies the parameters of the server.
func serverSum(p param.Values) uint32 {
	asked := param.Values{}
	for _, name := range []string{"processes", "users", "events", "volume"} {
		asked[name] = p.Text(name)
	}
	for _, d := range tool.DatabaseParams() {
		asked[d.Name] = p.Text(d.Name)
	}
	return crc32.ChecksumIEEE([]byte(strings.Join(asked.Args(), "\n")))
}

func port(sum uint32) uint16 { return firstPort + uint16(sum%ports) }

// Ports implements execution.Server.
func (Runner) Ports(p param.Values) []uint16 {
	return []uint16{port(serverSum(p)), server.ResponderPort}
}

// connect selects the database server.
func (s *site) connect() error {
	info, volume := s.target.Subject.Info(), s.params.Text("volume")
	root, ok := info.Volumes[volume]
	if !ok {
		return fault.WithFix(fault.New(fault.Unsupported, "the contender has no volume %s", volume),
			"add volumes: {"+volume+": {backing: …, size: …}}, to say which storage the database uses")
	}
	var err error
	s.db, err = database.New(s.target.Subject, s.params, s.known.Found.Bin, path.Join(root, "bakeoff-cms"),
		info.Scratch, s.known.UID)
	return err
}

// finder prints the paths of PostgreSQL's programs, PHP's manager, the
// application and nginx: the newest of each, or an empty line.
const finder = `PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
pg= fpm= app= web=
for f in /usr/lib/postgresql/*/bin/initdb; do [ -x "$f" ] && pg=${f%/*}; done
for f in /usr/sbin/php-fpm*; do [ -x "$f" ] && fpm=$f; done
[ -r /usr/share/davical/dba/create-database.sh ] && [ -r /etc/davical/config.php ] && app=/usr/share/davical
command -v nginx >/dev/null && web=nginx
printf '%s\n' "$pg" "$fpm" "$app" "$web"`

func findPrograms(ctx context.Context, c conn.Conn) (found, error) {
	out, err := conn.Output(ctx, c, "sh", "-c", finder)
	if err != nil {
		return found{}, err
	}
	at := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(at) != 4 {
		return found{}, fault.New(fault.Lab, "unexpected output of the search for programs: %.200q", out)
	}
	for i, what := range []string{"PostgreSQL", "PHP's FastCGI manager (php-fpm)", "the application (davical)", "nginx"} {
		if at[i] == "" {
			return found{}, fault.WithFix(fault.New(fault.Subject, "%s is missing or cannot be read", what), install)
		}
	}
	return found{Bin: at[0], FPM: at[1], App: at[2]}, nil
}

// template is the database that others are copies of.
func (s *site) template() string { return "seed_" + s.key }

// startServers starts the database with its data, PHP, and the web server.
func (s *site) startServers(ctx context.Context) error {
	facts, err := s.db.Start(ctx)
	if err != nil {
		return err
	}
	maps.Copy(s.known.Facts, facts)
	if there, err := s.db.Has(ctx, s.template()); err != nil {
		return err
	} else if !there {
		if err := s.fillTemplate(ctx); err != nil {
			return fault.Op("database of the application", err)
		}
	}
	if err := s.serveSite(ctx); err != nil {
		return err
	}
	return s.noteVersions(ctx)
}

// fillTemplate creates the template database with the application's own script, under a
// temporary name until it is complete.
func (s *site) fillTemplate(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, seedTime)
	defer cancel()
	if _, err := conn.Output(ctx, s.target.Subject, "mkdir", "-p", s.dir+"/temp"); err != nil {
		return err
	}
	file := s.dir + "/seed.sql"
	users, events := int(s.params.Int("users")), int(s.params.Int("events"))
	if err := s.target.Subject.Push(ctx, file, 0o644, strings.NewReader(seedSQL(users, events))); err != nil {
		return err
	}
	making := "making_" + s.key
	if _, err := s.db.SQL(ctx, "postgres", "DROP DATABASE IF EXISTS "+making); err != nil {
		return err
	}
	script := s.known.Found.App + "/dba/create-database.sh"
	said, err := s.db.Run(ctx, nil, "sh", script, making, "none")
	if err != nil {
		return err
	}
	if _, err := s.db.Run(ctx, nil, s.known.Found.Bin+"/psql", "-X", "-q", "-d", making, "-f", file); err != nil {
		return err
	}
	// The script succeeds even if its statements fail.
	count, err := s.db.SQL(ctx, making, "SELECT count(*) FROM caldav_data JOIN calendar_item USING (dav_id) JOIN "+
		"collection ON collection.collection_id = caldav_data.collection_id JOIN principal ON principal.user_no = "+
		"caldav_data.user_no")
	if err != nil {
		return err
	}
	if got, want := strings.TrimSpace(string(count)), fmt.Sprint(users*events); got != want {
		return fault.New(fault.Subject, "the database has %s events instead of %s; output of the SQL script: %.300q", got,
			want, said)
	}
	_, err = s.db.SQL(ctx, "postgres", "ALTER DATABASE "+making+" RENAME TO "+s.template())
	return err
}

// restore replaces the application's database by a copy of the template.
func (s *site) restore(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, restoreMost)
	defer cancel()
	there, err := s.db.Has(ctx, s.template())
	if err == nil && !there {
		err = fault.New(fault.Subject, "the template database is missing")
	}
	for _, statement := range []string{
		"DROP DATABASE IF EXISTS " + live + " WITH (FORCE)",
		"CREATE DATABASE " + live + " OWNER " + owner + " TEMPLATE " + s.template(),
	} {
		if err == nil {
			_, err = s.db.SQL(ctx, "postgres", statement)
		}
	}
	if err == nil {
		err = s.db.Alive(ctx, live)
	}
	if err != nil && !fault.Is(err, fault.Unsupported) && ctx.Err() == nil {
		return fault.Wrap(fault.Subject, "the database cannot be restored", err)
	}
	return err
}

// noteVersions records the versions of the servers for the fingerprint.
func (s *site) noteVersions(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, asideTime)
	defer cancel()
	for name, argv := range map[string][]string{
		"davical": {"dpkg-query", "-W", "-f", "${Version}", "davical"},
		"php":     {s.known.Found.FPM, "-v"}, "nginx": {"nginx", "-v"},
	} {
		said := conn.Tail{Limit: 4096}
		if _, err := s.target.Subject.Exec(ctx, conn.Cmd{Argv: argv, Stdout: &said, Stderr: &said}); err != nil {
			return err
		}
		first, _, _ := strings.Cut(strings.TrimSpace(string(said.Bytes())), "\n")
		s.known.Facts[name] = strings.TrimPrefix(first, "nginx version: ")
	}
	return nil
}
