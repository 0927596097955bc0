-- What wrk knows at its end, as one line of JSON behind a mark. wrk runs a
-- script in plain mode: no request and no response passes through here, so the
-- load is what it is without a script.
local quantiles = {50, 90, 99, 99.9}

function done(summary, latency, requests)
  local e = summary.errors
  local at = {}
  for i, p in ipairs(quantiles) do
    at[i] = string.format('"%s":%d', tostring(p), latency:percentile(p))
  end
  io.write(string.format(
    'bakeoff {"duration_us":%d,"requests":%d,"bytes":%d,' ..
    '"errors":{"connect":%d,"read":%d,"write":%d,"status":%d,"timeout":%d},' ..
    '"latency_us":{%s}}\n',
    summary.duration, summary.requests, summary.bytes,
    e.connect, e.read, e.write, e.status, e.timeout, table.concat(at, ",")))
end
