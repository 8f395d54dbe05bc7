// A middleware for Express that keeps keys in Redis, as many articles have it: node setnx.js PORT REDIS LOCK, where LOCK is in milliseconds.
const http = require('node:http')
const net = require('node:net')

const [port, redisPort, lock] = process.argv.slice(2).map(Number)

const waiting = []
const connection = net.connect(redisPort, '127.0.0.1')
let answers = ''
connection.setNoDelay(true).on('data', data => {
  answers += data
  for (let m; (m = /^(?:([+:])([^\r]*)\r\n|\$-1\r\n|\$(\d+)\r\n)/.exec(answers));) {
    let value = m[1] ? m[2] : null
    let length = m[0].length
    if (m[3]) {
      if (answers.length < length + Number(m[3]) + 2) return
      value = answers.substr(length, Number(m[3]))
      length += Number(m[3]) + 2
    }
    answers = answers.slice(length)
    waiting.shift()(value)
  }
})
connection.on('close', () => process.exit(1))

const redis = (...words) => new Promise(resolve => {
  waiting.push(resolve)
  connection.write(`*${words.length}\r\n` + words.map(w => `$${String(w).length}\r\n${w}\r\n`).join(''))
})

async function idempotency (req, res, next) {
  const key = 'key:' + req.headers['idempotency-key']
  if (!await redis('SET', key, 'running', 'NX', 'PX', lock)) {
    const stored = await redis('GET', key)
    if (!stored || stored === 'running') return res.status(409).end()
    return res.status(201).end(stored)
  }
  const end = res.end.bind(res)
  res.end = async text => { await redis('SET', key, text, 'PX', 86400000); end(text) }
  next()
}

async function charge (req, res) {
  let text = ''
  for await (const part of req) text += part
  JSON.parse(text)
  const id = await redis('INCR', 'charges')
  res.setHeader('Location', '/charges/' + id)
  res.status(201).end(JSON.stringify({ id }))
}

http.createServer((req, res) => {
  res.status = code => { res.statusCode = code; return res }
  idempotency(req, res, () => charge(req, res).catch(() => req.destroy()))
}).listen(port, '127.0.0.1', () => console.log('ready'))
