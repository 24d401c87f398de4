// SPDX-License-Identifier: Apache-2.0
// Names without a hash: the files are compiled into the program, which serves them uncached.
export default {
  build: {
    outDir: 'dist',
    assetsInlineLimit: 0,
    modulePreload: false,
    reportCompressedSize: false,
    rollupOptions: {
      output: {
        entryFileNames: 'assets/app.js',
        chunkFileNames: 'assets/[name].js',
        assetFileNames: 'assets/app.[ext]',
      },
    },
  },
};
