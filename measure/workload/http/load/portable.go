package load

import (
	"context"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"bakeoff/base/sleep"
)

// The portable engine: one goroutine per connection, over net.Conn. It is for
// systems without epoll, and for TLS with a connection per request. The Go
// scheduler paces its open loop, so it reports no latency below its own
// lateness.

// client is one connection with its goroutine.
type client struct {
	load  *load
	pace  *pace // shared by all
	tally *tally
	list  list
	id    int
	dial  func(ctx context.Context) (net.Conn, error)
	conn  net.Conn
	in    reader
	buf   []byte
}

// pace assigns the slots of an open loop to free clients.
type pace struct {
	sync.Mutex
	*schedule
	length int64
}

// nextSendTime returns the next intended send time; ok is false if there is none left.
func (p *pace) nextSendTime() (due int64, ok bool) {
	p.Lock()
	defer p.Unlock()
	due = p.next
	if due >= p.length {
		return 0, false
	}
	p.advance()
	return due, true
}

func runPortable(ctx context.Context, l *load) (outcome, error) {
	var p *pace
	if l.rate > 0 {
		p = &pace{schedule: newSchedule(l.rate, l.exponential, l.seed, 0, 1), length: int64(l.time)}
	}
	clients := make([]*client, l.connections)
	for i := range clients {
		c := &client{load: l, pace: p, tally: newTally(int64(l.time)), buf: make([]byte, 16<<10),
			list: newList(l.asks), id: i, dial: l.dial, in: reader{session: l.session()}}
		clients[i] = c
		defer c.hangUp()
	}
	each := func(clients []*client, do func(*client)) {
		var g sync.WaitGroup
		for _, c := range clients {
			g.Go(func() { do(c) })
		}
		g.Wait()
	}
	// Other bodies are compared with the first one, and not kept.
	each(clients[:1], func(c *client) { c.warmUp(ctx, 0) })
	warm := nowNanos() + int64(l.warmUp)
	each(clients, func(c *client) {
		if c.id > 0 || nowNanos() < warm {
			c.warmUp(ctx, warm)
		}
	})
	touched := false
	for _, c := range clients {
		touched = touched || c.in.begun
	}
	start, cpu := nowNanos(), processCPU()
	if touched {
		each(clients, func(c *client) { c.run(ctx, start) })
	}
	if ctx.Err() != nil {
		return outcome{}, context.Cause(ctx)
	}
	o := outcome{tally: newTally(int64(l.time)), elapsed: time.Duration(nowNanos() - start), cpu: processCPU() - cpu,
		engine: "portable", floor: true,
		priority: "normal: its goroutines have no threads of their own", stolen: -1}
	if l.started != "" {
		o.priority = l.started
	}
	for _, c := range clients {
		c.tally.starved = -1
		o.tally.merge(c.tally)
	}
	o.verified, o.sum = verified(l.asks)
	if p != nil {
		for _, ok := p.nextSendTime(); ok; _, ok = p.nextSendTime() {
			o.tally.countError("unsent")
		}
	}
	return o, nil
}

// warmUp verifies one response, and then more until end.
func (c *client) warmUp(ctx context.Context, end int64) {
	c.list.startAtPart(c.id, c.load.connections)
	for more := true; more; more = nowNanos() < end && ctx.Err() == nil {
		if why := c.exchange(ctx); why != "" {
			c.tally.countError(why)
			break
		}
		c.tally.response(-1, 0)
	}
	c.tally.latency.Reset()
}

// run works until the end of the timed part.
func (c *client) run(ctx context.Context, start int64) {
	end := start + int64(c.load.time)
	c.list.startAtPart(c.id, c.load.connections)
	for ctx.Err() == nil {
		free := nowNanos()
		if free >= end+int64(c.load.timeout) || c.pace == nil && free >= end {
			return
		}
		due := free
		if c.pace != nil {
			at, ok := c.pace.nextSendTime()
			if !ok {
				return
			}
			due = start + at
			if due > free && sleep.For(ctx, time.Duration(due-free)) != nil {
				return
			}
			c.tally.recordSend(nowNanos()-start, at, free-start)
		}
		opened := c.conn != nil
		why := c.exchange(ctx)
		t := nowNanos()
		switch {
		case ctx.Err() != nil:
			return
		case why == "":
			c.tally.response(t-start, t-due)
			continue
		}
		c.tally.countError(why)
		if !opened && c.conn == nil { // could not be opened: pause
			_ = sleep.For(ctx, 10*time.Millisecond)
		}
	}
}

// exchange sends a request and reads its response. It returns the class of the
// error; "" for none.
func (c *client) exchange(ctx context.Context) (why string) {
	ctx, cancel := context.WithTimeout(ctx, c.load.timeout)
	defer cancel()
	c.in.begin(c.list.next(), c.conn == nil)
	if c.conn == nil {
		conn, err := c.dial(ctx)
		if err != nil {
			return classOf(err)
		}
		c.conn = conn
	}
	defer context.AfterFunc(ctx, interrupt(c.conn))()
	why = c.sendPending()
	if why == "" {
		why = c.read()
	}
	if why != "" {
		c.hangUp()
		return why
	}
	if c.in.closing() || !c.load.keepalive {
		c.hangUp()
	}
	return c.in.verdict()
}

// interrupt returns a function that ends a pending operation of c.
func interrupt(c net.Conn) func() {
	return func() {
		if c.SetDeadline(time.Unix(1, 0)) != nil {
			c.Close() // this connection does not support deadlines
		}
	}
}

// sendPending sends what has not been sent.
func (c *client) sendPending() (why string) {
	if len(c.in.rest) == 0 {
		return ""
	}
	_, err := c.conn.Write(c.in.rest)
	c.in.rest = nil
	if err != nil {
		return classOf(err)
	}
	return ""
}

// read reads one whole response.
func (c *client) read() (why string) {
	for {
		n, err := c.conn.Read(c.buf)
		k, done, bad := c.in.readBytes(c.buf[:n])
		switch {
		case bad != nil || done && k < n:
			return faultOf(bad)
		case !done && err != nil:
			return c.in.classOfCut(classOf(err))
		}
		if why := c.sendPending(); done || why != "" {
			return why
		}
	}
}

func (c *client) hangUp() {
	if c.conn != nil {
		c.conn.Close()
		c.conn = nil
	}
}

// dial opens a connection to the server.
func (l *load) dial(ctx context.Context) (net.Conn, error) {
	var d net.Dialer
	plain, err := d.DialContext(ctx, "tcp", l.addr.String())
	if err != nil || l.tls == nil {
		return plain, err
	}
	return handshake(ctx, plain, l.tls)
}

// handshake makes a TLS connection over plain, or closes it.
func handshake(ctx context.Context, plain net.Conn, config *tls.Config) (net.Conn, error) {
	c := tls.Client(plain, config)
	if err := c.HandshakeContext(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// noProtocol is what crypto/tls calls the alert of a server that offers no
// common protocol; it has no type of its own.
const noProtocol = "tls: no application protocol"

// classOf returns the class of a connection's error.
func classOf(err error) string {
	var network *net.OpError
	switch {
	case errors.Is(err, errNotNegotiated), strings.HasSuffix(err.Error(), noProtocol):
		return string(errNotNegotiated)
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded),
		errors.Is(err, syscall.ETIMEDOUT):
		return "timeout"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "connection reset"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "connection closed"
	case errors.As(err, &network):
		return "connection: " + network.Err.Error()
	}
	return "connection: " + err.Error()
}

// Peer is a server of which single requests are made.
type Peer struct {
	Addr        netip.AddrPort
	HTTP2       bool
	Certificate string // its SHA-256, in hexadecimal; "" for plain HTTP
	// Dial opens a connection, without TLS.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// Get requests u once, as the generator does, checks the response, and returns its head
// (over HTTP/2 the frame of it) and the length of its body in bytes, 0 if u varies. The error
// is the class of the failure.
func (p Peer) Get(ctx context.Context, u URL, timeout time.Duration) (head string, length int64, err error) {
	l := &load{addr: p.Addr, timeout: timeout, http2: p.HTTP2}
	if p.Certificate != "" {
		l.tls = &tls.Config{} // for the scheme; connect has its own
	}
	a, err := newAsk(u, l)
	if err != nil {
		return "", 0, err
	}
	c := &client{load: l, buf: make([]byte, 16<<10), list: newList([]*ask{a}), dial: p.connect,
		in: reader{session: l.session()}}
	defer c.hangUp()
	if why := c.exchange(ctx); why != "" {
		return "", 0, errors.New(why)
	}
	return string(c.list.expect[0].memo), int64(len(a.known.Load().body)), nil
}

// Offers returns the protocols that the server agrees to in a TLS handshake (ALPN, RFC 7301):
// "h2", "http/1.1". It has none without a certificate, because nothing negotiates there.
func (p Peer) Offers(ctx context.Context, timeout time.Duration) (offered []string, err error) {
	if p.Certificate == "" {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for _, protocol := range []string{"h2", "http/1.1"} {
		plain, err := p.Dial(ctx, "tcp", p.Addr.String())
		if err != nil {
			return nil, err
		}
		config, err := pinCertificate(p.Certificate, false)
		if err != nil {
			plain.Close()
			return nil, err
		}
		config.NextProtos = []string{protocol}
		// A server that does not offer the protocol may refuse the handshake.
		c, err := handshake(ctx, plain, config)
		if err != nil {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			continue
		}
		if t, ok := c.(*tls.Conn); ok && t.ConnectionState().NegotiatedProtocol == protocol {
			offered = append(offered, protocol)
		}
		c.Close()
	}
	return offered, nil
}

// Identify returns the SHA-256 of the certificate that the server presents, in hexadecimal,
// and what describes the connection: the version of TLS, the cipher suite, and the key of the
// certificate. It trusts every certificate. HTTP2 selects the protocol that it asks for.
func (p Peer) Identify(ctx context.Context, timeout time.Duration) (sum, what string, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	plain, err := p.Dial(ctx, "tcp", p.Addr.String())
	if err != nil {
		return "", "", err
	}
	c := tls.Client(plain, trusting(p.HTTP2))
	defer c.Close()
	if err := c.HandshakeContext(ctx); err != nil {
		return "", "", err
	}
	state := c.ConnectionState()
	leaf := state.PeerCertificates[0] // a handshake without one fails
	return SumOf(leaf.Raw), strings.Join([]string{tls.VersionName(state.Version), tls.CipherSuiteName(state.CipherSuite),
		keyName(leaf)}, ", "), nil
}

// keyName is the kind of a certificate's key, such as "RSA 4096".
func keyName(c *x509.Certificate) string {
	switch key := c.PublicKey.(type) {
	case *rsa.PublicKey:
		return "RSA " + strconv.Itoa(key.N.BitLen())
	case *ecdsa.PublicKey:
		return "ECDSA " + key.Curve.Params().Name
	}
	return c.PublicKeyAlgorithm.String()
}

// connect opens a connection, with TLS if there is a certificate.
func (p Peer) connect(ctx context.Context) (net.Conn, error) {
	plain, err := p.Dial(ctx, "tcp", p.Addr.String())
	if err != nil || p.Certificate == "" {
		return plain, err
	}
	config, err := pinCertificate(p.Certificate, p.HTTP2)
	if err != nil {
		plain.Close()
		return nil, err
	}
	return handshake(ctx, plain, config)
}
