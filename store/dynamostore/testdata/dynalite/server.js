const dynalite = require('dynalite')

const server = dynalite({ createTableMs: 0, deleteTableMs: 0 })
server.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port}`))
